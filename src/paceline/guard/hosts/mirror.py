"""Rings of other hosts, kept in the folder of the run as if their ranks were here. What comes in is checked first.

A mirror has the names of its ring, so that whoever reads rings reads these too. The numbers of processes are made
different from those of this host; see remote_process.py.
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Iterable
from pathlib import Path

from paceline.guard.hosts.host_messages import NoteReport
from paceline.guard.hosts.ring_image import unpack_parts
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.record_fields import WORD
from paceline.process.private_files import open_private, write_private

MIRROR_PREFIX = "mirror."  # of the name that a mirror has besides: a head that is started again knows it by that
_RING_NAME = re.compile(r"ring\.[0-9a-f]{1,32}\.\d{1,4}\.\d{1,7}")


class RingMirror:
    """The ring of one process of another host.

    Args:
        folder: The folder of the run.
        number: By which the process is known here.
    """

    def __init__(self, folder: Path, number: int) -> None:
        self._folder, self._number = folder, number
        self._names: list[str] = []
        self._bytes: mmap.mmap | None = None
        self._words: memoryview | None = None

    def take_names(self, names: Iterable[str]) -> str:
        """Take names that are new; return what is wrong with one, or nothing.

        Raises:
            OSError: There is no room for it.
        """
        for name in names:
            if name in self._names:
                continue
            if not _RING_NAME.fullmatch(name):
                return f"a watcher tells of a ring of the name {name[:40]!r}"
            try:
                self._take_name(name)
            except FileExistsError:
                return f"two processes say that they are {name.rpartition('.')[2]} of the same job"
            self._names.append(name)
        return ""

    def _take_name(self, name: str) -> None:
        if self._names:
            os.link(self._folder / self._names[0], self._folder / name)
            return
        held = self._folder / f"{MIRROR_PREFIX}{self._number}"
        descriptor = open_private(held, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            os.posix_fallocate(descriptor, 0, layout.RING_BYTES)  # no room is an error here, and a SIGBUS later
            held_bytes = mmap.mmap(descriptor, layout.RING_BYTES)
            os.link(held, self._folder / name)
        except OSError:
            held.unlink()
            raise
        finally:
            os.close(descriptor)
        self._bytes, self._words = held_bytes, memoryview(held_bytes).cast("Q")

    def clear(self) -> None:
        """Forget everything: what comes next is the whole ring."""
        if self._bytes is not None:
            self._bytes[:] = bytes(layout.RING_BYTES)  # and keep the room

    def take_parts(self, parts: bytes) -> None:
        """Take in what has changed.

        Raises:
            ValueError: It is not a part of a ring.
        """
        if self._bytes is None or self._words is None:
            return
        for begin, content in unpack_parts(parts):
            self._bytes[begin : begin + len(content)] = content
        self._words[layout.PID] = self._number

    def says_when_it_ends(self) -> bool:
        """Say whether the rank has noted the time of its end by itself."""
        return self._words is not None and self._words[layout.ENDED_AT] != 0

    def wants_to_go_on(self) -> bool:
        """Say whether the judge has let the rank make the call that it stopped before; it is said once."""
        words = self._words
        if words is None or not words[layout.STOPPED] or words[layout.GO_ON] != words[layout.STOPPED]:
            return False
        words[layout.GO_ON] = 0
        return True

    def close(self) -> None:
        """Let go of the memory."""
        if self._words is not None and self._bytes is not None:
            self._words.release()
            self._bytes.close()


def write_note(folder: Path, note: NoteReport, number: int) -> None:
    """Keep the note of a rank that has not joined yet.

    Raises:
        ValueError: It is not a note.
    """
    lines = [json.loads(line) for line in note.content.splitlines()]
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise ValueError("a note of a rank is not a list of facts")
    lines[0] |= {"pid": number, "began": note.began}
    content = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
    write_private(folder / f"{layout.START_PREFIX}{number}", content)


assert layout.PID * WORD < layout.HEADER_BYTES
