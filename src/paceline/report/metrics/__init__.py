"""What the live view knows of a run as metrics, for tools that draw and keep them."""
