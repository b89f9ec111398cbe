"""Refuses a file that cannot be written before the work is done, not after."""

from __future__ import annotations

from pathlib import Path

from paceline.errors import InputError


def check_writable(*files: str | Path | None) -> None:
    """Raise `InputError` for a file that cannot be opened for writing; None is no file."""
    for file in files:
        if file is not None:
            try:
                with open(file, "ab"):
                    pass
            except OSError as error:
                raise InputError(f"{error.filename} cannot be written: {error.strerror}") from None
