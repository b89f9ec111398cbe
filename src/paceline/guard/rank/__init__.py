"""What runs inside a watched rank: it records each call before the call runs. Standard library alone."""
