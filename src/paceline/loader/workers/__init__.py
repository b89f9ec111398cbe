"""What workers of torch's DataLoader do, and how they are set up: for epochs and for streams."""
