"""Opens a page in the user's browser, where there is one to see it in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from paceline.cli.verb_io import say

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def has_display(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Say whether a window can be shown: a browser in a terminal would draw over what is printed there.

    >>> has_display({"DISPLAY": ":0"}, "linux"), has_display({}, "linux"), has_display({}, "darwin")
    (True, False, True)
    """
    return platform in ("darwin", "win32") or "BROWSER" in environ or any(environ.get(name) for name in _DISPLAYS)


def open_page(page: Path) -> bool:
    """Open a page; if that is not possible say why, and return False."""
    import webbrowser

    if not has_display(os.environ):
        say("paceline: the page is not opened: there is no display here (set BROWSER to open it all the same)")
        return False
    if not webbrowser.open(page.resolve().as_uri()):
        say("paceline: the page is not opened: no browser was found")
        return False
    return True
