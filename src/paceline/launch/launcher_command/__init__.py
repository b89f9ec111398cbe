"""Reads the command of a launcher that users have: which hosts it names, what it hands on to them, how it is ended."""
