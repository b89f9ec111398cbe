"""The command line: verbs and exit codes. Each verb has a file; it imports what it needs when it runs."""

from paceline.cli.main import main

__all__ = ["main"]
