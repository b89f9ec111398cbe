"""Text from outside made safe to look at: what cannot be seen, or changes the order of what can, is spelled out.

There are two styles, for a terminal and for a page. Every report that shows names, source lines or error messages of
the user's program passes them through one of the two.
"""

from __future__ import annotations

import unicodedata
from typing import Any

_JOINERS = "\u200c\u200d"  # some scripts need them
_KEPT_ON_PAGES = "\n\t"
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # categories of Unicode


def terminal_safe(text: str) -> str:
    r"""Return the text on one line that a terminal shows without obeying it: whatever is not printable is escaped.

    >>> terminal_safe("a\x1b[31m.py"), terminal_safe("naïve\u202e.py")
    ('a\\x1b[31m.py', 'naïve\\u202e.py')
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def page_safe(text: str) -> str:
    r"""Return the text with control characters, direction marks and halves of characters made visible.

    Line ends and tabs stay: a page shows them, and nothing obeys them.

    >>> print(page_safe("a\x1b[31m\u202etxt.exe\udcff"))
    a␛[31m\u202etxt.exe\udcff
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown_on_page, text))


def page_safe_values(value: Any) -> Any:
    """Return lists and dicts with all their texts made safe for a page."""
    if isinstance(value, str):
        return page_safe(value)
    if isinstance(value, dict):
        return {page_safe(str(key)): page_safe_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(inner, int) for inner in value):
            return value  # the columns of a timeline: long, and without text
        return [page_safe_values(inner) for inner in value]
    return value


def _shown_on_page(character: str) -> str:
    number = ord(character)
    if character in _KEPT_ON_PAGES or character in _JOINERS:
        return character
    if number < 0x20:
        return chr(0x2400 + number)  # Unicode has a picture of each
    if number == 0x7F:
        return "\u2421"
    return _escape(character) if unicodedata.category(character) in _UNSEEN else character


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
