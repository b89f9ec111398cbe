"""Keeps the lines of the user's source around call sites: a report is read later, when the file may have changed."""

from __future__ import annotations

import os
from collections.abc import Iterable

from paceline.process.hidden_secrets import hide_in_source

_AROUND = 5  # lines before and after
_MAX_LINE = 300  # characters
_MAX_FILE_BYTES = 4 << 20
_MAX_SITES = 500

KeptLines = dict[str, dict[str, str]]  # file as it is shown -> number of the line -> text


def keep_lines(sites: Iterable[tuple[str, str]]) -> KeptLines:
    """Return the lines around sites.

    Args:
        sites: The folder that a rank runs in, and file:line as it is shown: relative to that folder, or absolute.
    """
    wanted: dict[tuple[str, str], set[int]] = {}
    for folder, site in list(dict.fromkeys(sites))[:_MAX_SITES]:
        path, _, line = site.rpartition(":")
        if path and line.isdigit():
            around = range(max(1, int(line) - _AROUND), int(line) + _AROUND + 1)
            wanted.setdefault((os.path.join(folder, path), path), set()).update(around)
    lines_of_file: KeptLines = {}
    for (path, shown), numbers in wanted.items():
        lines = _read_lines(path)
        wanted_lines = {
            str(number): hide_in_source(lines[number - 1][:_MAX_LINE])
            for number in sorted(numbers)
            if number <= len(lines)
        }
        if wanted_lines:
            lines_of_file.setdefault(shown, {}).update(wanted_lines)
    return lines_of_file


def _read_lines(path: str) -> list[str]:
    """Return the lines of a file; none if it cannot be read, such as code that was typed in or lies in an archive."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > _MAX_FILE_BYTES:
            return []
        with open(path, encoding="utf-8", errors="replace", newline=None) as file:
            return file.read().removesuffix("\n").split("\n")
    except (OSError, ValueError):
        return []
