"""Calls that nobody waits in: hosts tell sums and samples of them, and the head compares calls where these differ."""
