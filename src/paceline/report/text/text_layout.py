"""How text is laid out for its reader: with colours and wrapped on a terminal, plain where there is none."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

_CODES = {"head": "\033[1;31m", "warn": "\033[1;33m", "key": "\033[1m", "dim": "\033[2m"}
_END = "\033[0m"
_MIN_COLUMNS = 40  # narrower terminals wrap by themselves
_WITHOUT_COLOURS = ("", "dumb", "unknown")  # values of TERM


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLayout:
    """How text is laid out.

    Attributes:
        has_colours: Whether the reader shows colours.
        columns: After how many characters lines are wrapped; None wraps nothing.
    """

    has_colours: bool = False
    columns: int | None = None

    def colour(self, name: str, text: str) -> str:
        """Return a text in a colour, if there are colours."""
        return f"{_CODES[name]}{text}{_END}" if self.has_colours else text

    def wrap(self, text: str, *, indent: int = 0, hang: int = 4) -> list[str]:
        """Return a text as lines; words are never cut, so that a file and its line stay together.

        Args:
            text: The text, without colours.
            indent: By how much the first line is indented.
            hang: By how much more the others are.

        >>> TextLayout(columns=40).wrap("rank 3 left the loop at a/very/long/path/of/a/file.py:20 early", indent=2)
        ['  rank 3 left the loop at', '      a/very/long/path/of/a/file.py:20', '      early']
        """
        if self.columns is None:
            return [" " * indent + text]
        return textwrap.wrap(
            text, max(self.columns, _MIN_COLUMNS), initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hang), break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip

    def labelled(self, label: str, text: str) -> list[str]:
        """Return a line below a headline that begins with a label, wrapped."""
        first, *others = self.wrap(f"{label}: {text}", indent=2)
        return [first.replace(f"{label}:", self.colour("key", f"{label}:"), 1), *others]

    def headline(self, text: str, colour: str = "head") -> list[str]:
        """Return a headline in its colour, wrapped."""
        return [self.colour(colour, line) for line in self.wrap(text)]


PLAIN = TextLayout()


def layout_for(stream: TextIO, environ: Mapping[str, str] = os.environ) -> TextLayout:
    """Return the layout for a stream. NO_COLOR and TERM=dumb are heeded; what is not a terminal gets plain text."""
    try:
        if not stream.isatty():
            return PLAIN
        columns = os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):  # closed, or without a descriptor
        return PLAIN
    has_colours = not environ.get("NO_COLOR") and environ.get("TERM", "") not in _WITHOUT_COLOURS
    return TextLayout(has_colours=has_colours, columns=columns)
