"""What the parent process sees of the ranks: their rings, their boards, and what the kernel says of their processes."""
