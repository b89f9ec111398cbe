"""Whether Ctrl-C reaches a process from its terminal: then its children have got it too."""

from __future__ import annotations

import os


def is_foreground() -> bool:
    """Say whether we are in the foreground of our terminal, wherever our input comes from."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
