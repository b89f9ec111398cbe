"""One watched run, from its start to the files that it keeps. Runs in the parent process.

`watched_run` is the way in: it starts a command, judges it, and keeps records, outcome and diagnosis by itself.
"""
