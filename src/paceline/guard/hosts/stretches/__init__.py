"""Calls that do not wait: hosts compare sums of them, and the head compares the calls themselves where sums differ."""
