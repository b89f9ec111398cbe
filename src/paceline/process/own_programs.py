"""How programs of ours are started: without modules of the current folder, which anybody may have written.

`python -m` and `python -c` put the current folder first on the path, so a file `socket.py` there would be run. Scripts
of users are started as Python starts them.
"""

from __future__ import annotations

import sys

_SAFE_PATH = "-P"


def own_module(name: str) -> list[str]:
    """Return the start of a command that runs a module of ours."""
    return [sys.executable, _SAFE_PATH, "-m", name]


def own_code(text: str) -> list[str]:
    """Return a command that runs a few lines of ours."""
    return [sys.executable, _SAFE_PATH, "-c", text]
