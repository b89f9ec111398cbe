"""Looks at all ranks again and again, and decides when a finding is certain. Runs in the parent process."""
