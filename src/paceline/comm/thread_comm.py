"""Ranks as threads of one process, for tests and small jobs. Every wait has a deadline.

Each rank posts what it brings to a call; when all have posted, each takes what it needs. A rank that calls
something else at the same turn, leaves, or aborts makes the call fail on all ranks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from paceline.comm.arrays import as_numpy, check_counts, check_reducible, check_root, like
from paceline.comm.comm import Array, CommError, Reduction

_REDUCE: dict[Reduction, Any] = {
    Reduction.SUM: np.add,
    Reduction.PRODUCT: np.multiply,
    Reduction.MIN: np.minimum,
    Reduction.MAX: np.maximum,
}


class Meeting:
    """Where the threads of one group meet: one turn after the other."""

    def __init__(self, world_size: int, deadline: float) -> None:
        self.world_size = world_size
        self.deadline = deadline
        self._changed = threading.Condition()
        self._turns: dict[int, dict[int, tuple[str, Any]]] = {}
        self._left: dict[int, int] = {}
        self._broken: str | None = None
        self._children: dict[int, Meeting] = {}

    def exchange(self, rank: int, turn: int, call: str, brought: Any) -> list[Any]:
        """Bring something to a turn and return what each rank brought, in the order of ranks."""
        with self._changed:
            here = self._turns.setdefault(turn, {})
            here[rank] = call, brought
            calls = {name for name, _ in here.values()}
            if len(calls) > 1:
                who = ", ".join(f"rank {r} {name}" for r, (name, _) in sorted(here.items()))
                self._break(f"ranks called differently at call {turn}: {who}")
            self._changed.notify_all()
            arrived = self._changed.wait_for(lambda: self._broken or len(here) == self.world_size, self.deadline)
            if not arrived:
                missing = sorted(set(range(self.world_size)) - set(here))
                self._break(f"{call} at call {turn}: ranks {missing} did not come within {self.deadline} s")
            if len(here) < self.world_size or len({name for name, _ in here.values()}) > 1:
                raise CommError(str(self._broken))
            self._left[turn] = self._left.get(turn, 0) + 1
            if self._left[turn] == self.world_size:
                del self._turns[turn], self._left[turn]
            return [here[r][1] for r in range(self.world_size)]

    def child(self, turn: int) -> Meeting:
        """Return the meeting that all ranks make at one turn."""
        with self._changed:
            child = self._children.setdefault(turn, Meeting(self.world_size, self.deadline))
            if self._broken:
                child.abort(self._broken)
            return child

    def abort(self, reason: str) -> None:
        """Make every wait of this meeting and of those made from it fail."""
        with self._changed:
            self._break(reason)

    def _break(self, reason: str) -> None:
        self._broken = self._broken or reason
        self._changed.notify_all()
        for child in self._children.values():
            child.abort(self._broken)


class ThreadsComm:
    """One thread of a group."""

    carrier = "threads"
    is_thread_safe = True
    is_whole_job = True
    carries_host_memory = True

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting = meeting
        self._rank = rank
        self._turn = 0

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return self._meeting.world_size

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self._exchange("barrier", None)

    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Return the root's array on every rank."""
        check_root(root, self.world_size)
        brought = as_numpy(array).copy() if self._rank == root else None
        return self._as(self._exchange(f"broadcast from {root}", brought)[root].copy(), array)

    def all_gather(self, array: Array) -> Array:
        """Return all ranks' arrays, stacked."""
        parts = self._exchange("all_gather", as_numpy(array).copy())
        self._check_alike("all_gather", parts)
        return self._as(np.stack(parts), array)

    def all_to_all(self, array: Array, send_counts: Sequence[int], receive_counts: Sequence[int]) -> Array:
        """Send rows to every rank and return the rows that came."""
        check_counts(array, send_counts, receive_counts, self.world_size)
        rows = as_numpy(array).copy()
        sent = np.split(rows, np.cumsum(send_counts)[:-1])
        came = [parts[self._rank] for parts in self._exchange("all_to_all", sent)]
        counts = [len(part) for part in came]
        if counts != list(receive_counts):
            raise CommError(f"rank {self._rank} expected {list(receive_counts)} rows from each rank, got {counts}")
        return self._as(np.concatenate(came), array)

    def all_reduce(self, array: Array, reduction: Reduction | str = Reduction.SUM) -> Array:
        """Return the elementwise sum, product, least or largest."""
        check_reducible(array)
        reduce: Callable[..., Any] = _REDUCE[Reduction(reduction)]
        parts = self._exchange(f"all_reduce {Reduction(reduction).value}", as_numpy(array).copy())
        self._check_alike("all_reduce", parts)
        result = parts[0].copy()
        for part in parts[1:]:
            reduce(result, part, out=result)
        return self._as(result, array)

    def duplicate(self) -> ThreadsComm:
        """Return a group of the same ranks with turns of its own."""
        turn = self._turn
        self._exchange("duplicate", None)
        return ThreadsComm(self._meeting.child(turn), self._rank)

    def free(self) -> None:
        """There is nothing to let go of."""

    def abort(self, reason: str) -> None:
        """Make every wait of the group fail with the reason."""
        self._meeting.abort(f"rank {self._rank} aborted: {reason}")

    def _exchange(self, call: str, brought: Any) -> list[Any]:
        turn, self._turn = self._turn, self._turn + 1
        return self._meeting.exchange(self._rank, turn, call, brought)

    def _check_alike(self, call: str, parts: list[Any]) -> None:
        kinds = [f"{part.dtype} {part.shape}" for part in parts]
        if len(set(kinds)) > 1:
            who = ", ".join(f"rank {rank} {kind}" for rank, kind in enumerate(kinds))
            raise CommError(f"{call} needs the same shape and dtype on every rank: {who}")

    @staticmethod
    def _as(result: Any, array: Array) -> Array:
        converted: Array = like(result, array)
        return converted


def make_threads(world_size: int, deadline: float) -> list[ThreadsComm]:
    """Return one end for each rank of a new group."""
    meeting = Meeting(world_size, deadline)
    return [ThreadsComm(meeting, rank) for rank in range(world_size)]
