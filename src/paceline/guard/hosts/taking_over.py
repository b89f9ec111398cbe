"""What a head finds in the folder of its run if it is started again: the name by which hosts know it, and old mirrors.

Hosts tell everything to a head that does not know them, so nothing else of the head before is needed.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from pathlib import Path

from paceline.guard.hosts.mirror import MIRROR_PREFIX
from paceline.guard.hosts.remote_process import is_elsewhere
from paceline.guard.shared_memory import layout
from paceline.process.private_files import names_in, read_private, write_private

_FILE = "head"
_NAME = re.compile(r"[0-9a-f]{8}")


def head_name(folder: Path) -> str:
    """Return the name of the head of a run: hosts tell it from others that listen at the same address, one by one."""
    with suppress(OSError, UnicodeDecodeError):
        known = read_private(folder / _FILE, most=64).decode()
        if _NAME.fullmatch(known):
            return known
    name = secrets.token_hex(4)
    with suppress(OSError):  # no room: who comes after us is another head
        write_private(folder / _FILE, name.encode())
    return name


def remove_mirrors(folder: Path) -> None:
    """Remove the rings and notes of other hosts: the head before may have been killed while it wrote them."""
    names = names_in(folder)
    mirrors = {_file_of(folder / name): name for name in names if name.startswith(MIRROR_PREFIX)}
    for name in names:
        if _is_note_of_others(name) or (name.startswith("ring.") and _file_of(folder / name) in mirrors):
            _remove(folder / name)
    for name in mirrors.values():  # last: rings are known by them
        _remove(folder / name)


def _remove(path: Path) -> None:
    with suppress(OSError):  # it is a folder, or has gone: the head must start all the same
        path.unlink()


def _file_of(path: Path) -> int:
    """Return the inode of a file, which all its names share; 0 if a rank has just removed it."""
    try:
        return path.stat(follow_symlinks=False).st_ino
    except FileNotFoundError:
        return 0


def _is_note_of_others(name: str) -> bool:
    number = name.removeprefix(layout.START_PREFIX)
    return name.startswith(layout.START_PREFIX) and number.isdecimal() and is_elsewhere(int(number))
