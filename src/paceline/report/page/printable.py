"""Strangers' text made safe to look at: what cannot be seen, or turns the order of what can, is spelled out."""

from __future__ import annotations

import unicodedata
from typing import Any

_JOINERS = "\u200c\u200d"  # scripts need them
_KEPT = "\n\t"


def printable(text: str) -> str:
    r"""Return the text with control characters, direction marks and broken halves of characters as visible escapes.

    >>> print(printable("a\x1b[31m\u202etxt.exe\udcff"))
    a␛[31m\u202etxt.exe\udcff
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    number = ord(character)
    if character in _KEPT or character in _JOINERS:
        return character
    if number < 0x20:
        return chr(0x2400 + number)
    if number == 0x7F:
        return "\u2421"
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
    return character


def printable_values(value: Any) -> Any:
    """Return lists and dicts with all their texts made printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(str(key)): printable_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(inner, int) for inner in value):
            return value
        return [printable_values(inner) for inner in value]
    return value
