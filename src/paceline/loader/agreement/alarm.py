"""Tells all ranks, without a collective, that one of them cannot go on at a coming step.

A rank rings before it hands out the batch of the step before. Whoever then takes part in a collective of that step
with it, and asks afterwards, hears it: so all ranks stop at the same step, and none is in a collective of it.
"""

from __future__ import annotations

import mmap
import os
import pickle
import secrets
import struct
import tempfile
import threading
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from paceline.comm import Comm, CommError
from paceline.errors import InputError
from paceline.loader.agreement.objects import gather_objects
from paceline.loader.agreement.problem import Problem

_SLOT_BYTES = 8192
_HEAD = struct.Struct("<II")  # length and checksum of a message
_TEXT_BYTES, _TRACE_BYTES = 2048, 4096
_POLL_SECONDS = 0.5
_TRIES = 100  # to read a message that is being written


class Board(Protocol):
    """Where ranks leave a message that others read when they like."""

    def post(self, message: bytes) -> None:
        """Show this rank's message; when it returns, whoever reads sees it."""

    def read(self) -> list[bytes]:
        """Return the messages that ranks have posted, each rank's last one."""

    def close(self) -> None:
        """Let go of it."""


class MemoryBoard:
    """A board in memory that the ranks of one host share: reading it takes a microsecond."""

    def __init__(self, file: Any, comm: Comm) -> None:
        self._map = mmap.mmap(file.fileno(), 0)
        self._rank, self._world_size, self._quiet = comm.rank, comm.world_size, bytes(comm.world_size)

    @staticmethod
    def size_of(world_size: int) -> int:
        """Return the bytes that it takes."""
        return world_size * (1 + _SLOT_BYTES)

    def post(self, message: bytes) -> None:
        """Show this rank's message."""
        begin = self._world_size + self._rank * _SLOT_BYTES
        content = _HEAD.pack(len(message), zlib.crc32(message)) + message
        if len(content) > _SLOT_BYTES:
            raise InputError(f"a message of {len(content)} bytes is too long for the board")
        self._map[begin : begin + len(content)] = content
        self._map[self._rank : self._rank + 1] = b"\1"  # last: who sees it finds the message

    def read(self) -> list[bytes]:
        """Return the messages that ranks have posted."""
        posted = self._map[: self._world_size]
        if posted == self._quiet:
            return []
        return [self._message(rank) for rank, flag in enumerate(posted) if flag]

    def _message(self, rank: int) -> bytes:
        begin = self._world_size + rank * _SLOT_BYTES
        for _ in range(_TRIES):
            length, checksum = _HEAD.unpack_from(self._map, begin)
            message = self._map[begin + _HEAD.size : begin + _HEAD.size + length]
            if zlib.crc32(message) == checksum:
                return message
            time.sleep(0.001)  # another one is being written in its place
        raise CommError(f"the message of rank {rank} on the board cannot be read")

    def close(self) -> None:
        """Let go of the memory."""
        self._map.close()


class StoreBoard:
    """A board in the key-value store that torch's ranks have met in."""

    def __init__(self, name: str, comm: Comm) -> None:
        import torch.distributed.distributed_c10d as c10d

        self._store: Any = c10d.PrefixStore(f"paceline/{name}", c10d._get_default_store())
        self._rank, self._world_size = comm.rank, comm.world_size

    def post(self, message: bytes) -> None:
        """Show this rank's message."""
        self._store.set(f"message{self._rank}", message)
        self._store.set("posted", b"1")

    def read(self) -> list[bytes]:
        """Return the messages that ranks have posted."""
        if not self._store.check(["posted"]):
            return []
        keys = [f"message{rank}" for rank in range(self._world_size)]
        return [bytes(self._store.get(key)) for key in keys if self._store.check([key])]

    def close(self) -> None:
        """The store is torch's."""


class MessageBoard:
    """A board of small messages to every rank, for MPI over several hosts."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._mpi, self._any = comm.duplicate().communicator, MPI.ANY_SOURCE
        self._sent: list[Any] = []
        self._came: dict[int, bytes] = {}
        self._lock = threading.Lock()  # between seeing a message and taking it nobody else may take it

    def post(self, message: bytes) -> None:
        """Send this rank's message to all."""
        self._came[self._mpi.Get_rank()] = message
        others = [rank for rank in range(self._mpi.Get_size()) if rank != self._mpi.Get_rank()]
        self._sent += [self._mpi.isend(message, rank) for rank in others]

    def read(self) -> list[bytes]:
        """Return the messages that have come."""
        with self._lock:
            while self._mpi.iprobe(self._any):
                for rank in range(self._mpi.Get_size()):
                    if self._mpi.iprobe(rank):
                        self._came[rank] = self._mpi.recv(source=rank)
            return list(self._came.values())

    def close(self) -> None:
        """The messages are small and have left; the communicator stays, since freeing it would be a collective."""


def make_board(comm: Comm) -> Board:
    """Make the board of a group of ranks: in shared memory where all of them can see it. All ranks call it."""
    name = secrets.token_hex(8)
    made = _make_file(name, MemoryBoard.size_of(comm.world_size)) if comm.rank == 0 else None
    try:
        path, name = gather_objects(comm, (made, name))[0]
        file = None
        if path is not None:
            with suppress(OSError):  # another host, or another view of this one
                file = path.open("r+b")
        sees_it = all(gather_objects(comm, file is not None))
    finally:
        if made is not None:
            made.unlink()
    if file is not None:
        with file:
            if sees_it:
                return MemoryBoard(file, comm)
    return StoreBoard(name, comm) if comm.carrier == "torch" else MessageBoard(comm)


def _make_file(name: str, num_bytes: int) -> Path | None:
    """Make a file in memory, or else on disk; None if there is no room, and messages must do."""
    for folder in ("/dev/shm", tempfile.gettempdir()):
        path = Path(folder) / f"paceline-alarm-{name}"
        try:
            with path.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, num_bytes)
        except OSError:
            path.unlink(missing_ok=True)
        else:
            return path
    return None


class Alarm:
    """The alarm of one loader.

    Args:
        comm: The ranks. All make it at the same time.
        grace: Seconds that a rank has to come back to its loader after another has left the loop.
    """

    def __init__(self, comm: Comm, grace: float) -> None:
        self._comm, self._grace, self._board = comm, grace, make_board(comm)
        self._num_turns = 0
        # torch makes a group by way of its store, whatever else goes on, and takes its time: so only when it is needed
        self._apart: Comm | None = None if comm.carrier == "torch" else comm.duplicate()

    @property
    def apart(self) -> Comm:
        """The same ranks on a communicator of its own. At first all ranks must ask for it."""
        if self._apart is None:  # of a part of the job torch makes no group without the others
            self._apart = self._comm.duplicate() if self._comm.is_whole_job else self._comm
        return self._apart

    def begin(self) -> Turn:
        """Begin a pass: what was said in others does not count."""
        self._num_turns += 1
        # some MPIs take calls from one thread only
        is_watched = not isinstance(self._board, MessageBoard) or self._comm.is_thread_safe
        return Turn(self._num_turns, self._board, self._comm, self._grace if is_watched else None)

    def close(self) -> None:
        """Let go of what it has. All ranks call it, after their passes."""
        if self._apart is not None and self._apart is not self._comm:
            self._apart.free()
            self._apart = None
        self._board.close()


class Turn:
    """The alarm of one pass: who announces what, and who has left the loop."""

    def __init__(self, number: int, board: Board, comm: Comm, grace: float | None) -> None:
        self._number, self._board = number, board
        self._stop = threading.Event()
        self._watching: threading.Thread | None = None
        if grace is not None:
            given = (board, number, comm, grace, self._stop)
            self._watching = threading.Thread(target=_watch, args=given, name="paceline-alarm", daemon=True)
            self._watching.start()

    def end(self) -> None:
        """End the pass."""
        self._stop.set()
        if self._watching is not None:
            self._watching.join()

    def announce(self, problem: Problem, *, has_left: bool = False) -> None:
        """Tell all ranks that this one cannot make the step of the problem; later, that it has left the loop."""
        fields = {name: getattr(problem, name) for name in ("sample", "rank", "epoch", "step")}
        fields["text"] = problem.text.encode()[:_TEXT_BYTES].decode(errors="ignore")
        fields["trace"] = problem.trace.encode()[-_TRACE_BYTES:].decode(errors="ignore")
        self._board.post(pickle.dumps((self._number, has_left, fields)))

    def heard(self, step: int) -> Problem | None:
        """Return the problem because of which all ranks stop at this step, if there is one."""
        messages = self._board.read()
        if not messages:
            return None
        told = [problem for number, _, problem in map(_read, messages) if number == self._number]
        stops = [problem for problem in told if problem.step <= step]
        return min(stops, key=lambda problem: (problem.step, problem.rank), default=None)


def _watch(board: Board, number: int, comm: Comm, grace: float, stop: threading.Event) -> None:
    """End this rank if another has left the loop and this one does not come: it may wait in a collective for ever."""
    left_at: float | None = None
    while not stop.wait(_POLL_SECONDS):
        left = [problem for turn, has_left, problem in map(_read, board.read()) if turn == number and has_left]
        if not left:
            continue
        left_at = left_at or time.monotonic()
        if time.monotonic() - left_at > grace and all(problem.rank != comm.rank for problem in left):
            reason = f"this rank has not come back to its loader within {grace:.0f} s, and is ended"
            comm.abort(f"{left[0]}; {reason}")
            return


def _read(message: bytes) -> tuple[int, bool, Problem]:
    number, has_left, fields = pickle.loads(message)
    return number, has_left, Problem(**fields)
