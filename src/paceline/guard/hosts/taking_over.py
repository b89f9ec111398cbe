"""What a head finds in the folder of its run if it is started again: the name by which hosts know it, and old mirrors.

Hosts tell everything to a head that does not know them, so nothing else of the head before is needed.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from paceline.guard.hosts.remote_process import is_elsewhere
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.record_fields import WORD
from paceline.process.private_files import names_in, open_private, read_private, write_private

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
    for name in names_in(folder):
        with suppress(OSError):
            if _is_mirror(folder, name):
                (folder / name).unlink()


def _is_mirror(folder: Path, name: str) -> bool:
    if name.startswith(layout.START_PREFIX):
        number = name.removeprefix(layout.START_PREFIX)
        return number.isdecimal() and is_elsewhere(int(number))
    if not name.startswith("ring."):
        return False
    descriptor = open_private(folder / name)
    try:
        return is_elsewhere(int.from_bytes(os.pread(descriptor, WORD, layout.PID * WORD), "little"))
    finally:
        os.close(descriptor)
