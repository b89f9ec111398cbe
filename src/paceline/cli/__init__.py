"""The command line. Every `*_verb.py` is one verb, with its arguments and its exit codes.

A verb imports what it needs when it runs, so that `paceline --help` is instant.

The other modules serve verbs: `main` reads the command line, `verb_io` has what verbs share in reading arguments and
writing lines, `factory` finds a user's function, `shown_run` runs a job under the guard and shows it, and the folder
`desktop` has the live view and what else concerns the user's screen. `judge_process` is a program of its own, which
`paceline.guard.enable()` starts.
"""

from paceline.cli.main import main

__all__ = ["main"]
