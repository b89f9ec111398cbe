"""A run while it is in progress, on the last lines of a terminal."""
