"""What the user's source says of the lines from which ranks make their calls."""
