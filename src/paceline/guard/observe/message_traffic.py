"""Sees whether messages flow between ranks of this machine: by the memory that they share, and by their connections.

A stack that looks the same twice does not show that a rank stands still: a library may make the same call in a loop.
But ranks that get on exchange messages, and whatever carries those leaves a trace in shared memory or in what the
kernel counts for a connection. Where it does not count for each one, the packets of the loopback device must do, which
other jobs send too. Reading is all that is done here; pages that a rank has not touched are left alone.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from paceline.process.tcp_traffic import Carried, carried_by, socket_inodes

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PRESENT = 1 << 63  # of an entry of pagemap
_MOST_BYTES = 32 << 20  # of one rank; more would hold up whoever looks
_ESTABLISHED = "01"

_Carried = int | tuple[tuple[int, Carried], ...]


@dataclass(frozen=True, slots=True)
class TrafficTrace:
    """What messages of one rank would have changed."""

    shared_memory: int | None  # checksum of what it shares with others; None if it shares nothing
    connections: _Carried | None  # what each has carried; None if the rank has none

    @property
    def shows_messages(self) -> bool:
        """Whether messages would be seen here at all."""
        return self.shared_memory is not None or self.connections is not None


def traffic_trace(pid: int, own_folder: Path) -> TrafficTrace | None:
    """Return what messages of a rank would change; None if it may not be read, or is too much.

    Args:
        pid: The rank's process.
        own_folder: Where the rank's ring and the boards are: these are not MPI's.
    """
    try:
        checksum, num_bytes = 0, 0
        with (
            open(f"/proc/{pid}/mem", "rb", buffering=0) as memory,
            open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pages,
        ):
            for start, end in _shared_ranges(pid, own_folder):
                for begin, size in _present_ranges(pages, start, end):
                    num_bytes += size
                    if num_bytes > _MOST_BYTES:
                        return None
                    memory.seek(begin)
                    checksum = zlib.crc32(memory.read(size) or b"", checksum)
        connections = _carried_by_connections(pid)
    except (OSError, ValueError, OverflowError):
        return None
    return TrafficTrace(checksum if num_bytes else None, connections)


def _shared_ranges(pid: int, own_folder: Path) -> Iterator[tuple[int, int]]:
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(maxsplit=5)
            name = fields[5] if len(fields) > 5 else ""
            if fields[1].startswith("rw") and fields[1].endswith("s") and not name.startswith(f"{own_folder}/"):
                start, _, end = fields[0].partition("-")
                yield int(start, 16), int(end, 16)


def _present_ranges(pages: FileIO, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Return the parts of a mapping that are in memory, as address and size."""
    pages.seek(start // _PAGE * 8)
    data = pages.read((end - start) // _PAGE * 8) or b""
    begin: int | None = None
    for number, entry in enumerate(memoryview(data[: len(data) // 8 * 8]).cast("Q")):
        if entry & _PRESENT:
            begin = number if begin is None else begin
        elif begin is not None:
            yield start + begin * _PAGE, (number - begin) * _PAGE
            begin = None
    if begin is not None:
        yield start + begin * _PAGE, (len(data) // 8 - begin) * _PAGE


def _carried_by_connections(pid: int) -> _Carried | None:
    """Return what a process's connections have carried, or else how many packets there were; None if it has none."""
    established = _established(pid, ("tcp", "tcp6", "udp", "udp6"))
    if not established:
        return None
    with suppress(OSError):
        carried = carried_by(established)
        if carried.keys() == established:
            return tuple(sorted(carried.items()))
    return _loopback_packets()


def _established(pid: int, tables: Sequence[str]) -> set[int]:
    """Return the inodes of a process's sockets that are connected."""
    sockets, found = socket_inodes(pid), set()
    for table in tables:
        with suppress(FileNotFoundError):  # the kernel has no such network
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _ESTABLISHED:
                    found.add(int(fields[9]))
    return found & sockets


def _loopback_packets() -> int:
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == "lo":
            return int(figures.split()[1])
    return 0
