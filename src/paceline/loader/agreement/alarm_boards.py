"""Boards on which each rank leaves one message for all others, who read it when they like: no collective is needed.

Ranks of one host share memory. Over several hosts the board is torch's store, or small messages of MPI.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
import zlib
from contextlib import ExitStack, suppress
from typing import Any, BinaryIO, Protocol

import torch

from paceline.comm import Comm, CommError
from paceline.errors import InputError
from paceline.loader.agreement.first_message import gather_json

_SLOT_BYTES = 8192
_HEAD = struct.Struct("<II")  # length and checksum of a message
_TRIES = 100  # to read a message that is being written


class AlarmBoard(Protocol):
    """Where ranks leave a message that others read when they like."""

    def post(self, message: bytes) -> None:
        """Show this rank's message; once this returns, every reader sees it."""

    def read(self) -> list[bytes]:
        """Return the messages that ranks have posted, each rank's last one."""

    def close(self) -> None:
        """Release what the board holds."""


class MemoryAlarmBoard:
    """A board in memory that the ranks of one host share: reading it takes a microsecond.

    The memory starts with one byte per rank that says whether it has posted; a slot per rank follows.
    """

    def __init__(self, file: Any, comm: Comm) -> None:
        self._map = mmap.mmap(file.fileno(), 0)
        self._rank, self._world_size, self._quiet = comm.rank, comm.world_size, bytes(comm.world_size)

    @staticmethod
    def size_of(world_size: int) -> int:
        """Return the bytes that a board of this number of ranks takes."""
        return world_size * (1 + _SLOT_BYTES)

    def post(self, message: bytes) -> None:
        """Show this rank's message."""
        start = self._world_size + self._rank * _SLOT_BYTES
        content = _HEAD.pack(len(message), zlib.crc32(message)) + message
        if len(content) > _SLOT_BYTES:
            raise InputError(f"a message of {len(content)} bytes is too long for the board")
        self._map[start : start + len(content)] = content
        self._map[self._rank : self._rank + 1] = b"\1"  # last: whoever sees the flag finds the message

    def read(self) -> list[bytes]:
        """Return the messages that ranks have posted."""
        flags = self._map[: self._world_size]
        if flags == self._quiet:
            return []
        return [self._message(rank) for rank, flag in enumerate(flags) if flag]

    def _message(self, rank: int) -> bytes:
        start = self._world_size + rank * _SLOT_BYTES
        for _ in range(_TRIES):
            length, checksum = _HEAD.unpack_from(self._map, start)
            message = self._map[start + _HEAD.size : start + _HEAD.size + length]
            if zlib.crc32(message) == checksum:
                return message
            time.sleep(0.001)  # the rank is writing another message over this one
        raise CommError(f"the message of rank {rank} on the board cannot be read")

    def close(self) -> None:
        """Release the memory."""
        self._map.close()


class StoreAlarmBoard:
    """A board in the key-value store through which torch's ranks have found each other."""

    def __init__(self, name: str, comm: Comm) -> None:
        import torch.distributed.distributed_c10d as c10d

        self._store: Any = c10d.PrefixStore(f"paceline/{name}", c10d._get_default_store())
        self._rank, self._world_size = comm.rank, comm.world_size

    def post(self, message: bytes) -> None:
        """Show this rank's message."""
        self._store.set(f"message{self._rank}", message)
        self._store.set("posted", b"1")
        self._store.check(["posted"])  # setting waits for no answer, and readers use connections of their own

    def read(self) -> list[bytes]:
        """Return the messages that ranks have posted."""
        if not self._store.check(["posted"]):
            return []
        keys = [f"message{rank}" for rank in range(self._world_size)]
        return [bytes(self._store.get(key)) for key in keys if self._store.check([key])]

    def close(self) -> None:
        """Do nothing: the store belongs to torch."""


class MpiAlarmBoard:
    """A board of small messages to every rank, for MPI over several hosts."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._mpi, self._any = comm.duplicate().communicator, MPI.ANY_SOURCE
        self._sends: list[Any] = []
        self._messages: dict[int, bytes] = {}
        self._lock = threading.Lock()  # nobody else may take a message between seeing it and receiving it

    def post(self, message: bytes) -> None:
        """Send this rank's message to all."""
        self._messages[self._mpi.Get_rank()] = message
        others = [rank for rank in range(self._mpi.Get_size()) if rank != self._mpi.Get_rank()]
        self._sends += [self._mpi.isend(message, rank) for rank in others]

    def read(self) -> list[bytes]:
        """Return the messages that have arrived."""
        with self._lock:
            while self._mpi.iprobe(self._any):
                for rank in range(self._mpi.Get_size()):
                    if self._mpi.iprobe(rank):
                        self._messages[rank] = self._mpi.recv(source=rank)
            return list(self._messages.values())

    def close(self) -> None:
        """Do nothing: the messages are small and have left, and freeing the communicator would be a collective."""


def make_board(comm: Comm, device: torch.device | str = "cpu") -> AlarmBoard:
    """Make the board of these ranks: in shared memory if all of them can see it. All ranks call it.

    Args:
        comm: The ranks.
        device: The device to send from: some carriers send nothing that is in the host's memory.
    """
    token = os.urandom(8).hex()
    with ExitStack() as opened:
        own = _make_memory(token, MemoryAlarmBoard.size_of(comm.world_size)) if comm.rank == 0 else None
        if own is not None:
            opened.enter_context(own)
        own_path = None if own is None else f"/proc/{os.getpid()}/fd/{own.fileno()}"
        path, token = gather_json(comm, [own_path, token], device)[0]
        file = None if path is None else _open_memory(path, token)
        if file is not None:
            opened.enter_context(file)
        if all(gather_json(comm, file is not None, device)):  # the first rank holds it open until all have it
            return MemoryAlarmBoard(file, comm)
    return StoreAlarmBoard(token, comm) if comm.carrier == "torch" else MpiAlarmBoard(comm)


def _make_memory(token: str, num_bytes: int) -> BinaryIO | None:
    """Make memory without a name in any folder, which goes with the last process that has it, however that ends.

    None is returned if there is no room, and messages must do.
    """
    try:
        handle = os.memfd_create(f"paceline-alarm-{token}")
    except OSError:
        return None
    try:
        os.fchmod(handle, 0o600)
        os.posix_fallocate(handle, 0, num_bytes)
    except OSError:
        os.close(handle)
        return None
    return open(handle, "r+b", buffering=0)


def _open_memory(path: str, token: str) -> BinaryIO | None:
    """Open the memory that the first rank has made; None on another host, or where its processes are not seen.

    There the path may lead to anything: it is not opened unless its name is the one that no other memory has.
    """
    expected = f"/memfd:paceline-alarm-{token} (deleted)"
    with suppress(OSError):
        if os.readlink(path) == expected:
            handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
            if os.readlink(f"/proc/self/fd/{handle}") == expected:
                return open(handle, "r+b", buffering=0)
            os.close(handle)
    return None
