"""What is shared by all that watches mpi4py: how its constants read, and how a new communicator is taken up."""

from __future__ import annotations

from typing import Any

from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.mpi_buffers import Buffers, whole
from paceline.guard.rank.mpi.mpi_requests import watch_requests
from paceline.guard.rank.watched_process import SESSION, identity_of
from paceline.guard.shared_memory.layout import ANY, NOBODY
from paceline.guard.shared_memory.operations import REDUCTION_CODES


class MpiWatch:
    """What is known of one mpi4py module."""

    def __init__(self, mpi: Any) -> None:
        self.mpi = mpi
        self.buffers = Buffers(mpi)
        self.requests = watch_requests(mpi)
        names = REDUCTION_CODES.keys() - {"none", "AVG", "PREMUL_SUM", "custom", "unknown"}
        self._reductions = [(getattr(mpi, name), REDUCTION_CODES[name]) for name in names]
        self._sum, self._sum_code = mpi.SUM, REDUCTION_CODES["SUM"]
        self.classes: dict[type, type] = {}

    def reduction(self, operation: Any) -> int:
        """Return the number of a reduction."""
        if operation is self._sum:
            return self._sum_code
        for known, code in self._reductions:
            if isinstance(operation, self.mpi.Op) and operation == known:
                return code
        return REDUCTION_CODES["custom"]

    def peer(self, rank: int) -> int:
        """Return a peer as records have it; numpy's integers are Python's here, which do not overflow."""
        rank = whole(rank)
        if rank >= 0:
            return rank
        if rank == self.mpi.ANY_SOURCE:
            return ANY
        return NOBODY if rank == self.mpi.PROC_NULL else rank - 1000  # no rank at all; the call will say so

    def tag(self, tag: int) -> int:
        """Return a tag as records have it."""
        return ANY if tag == self.mpi.ANY_TAG else whole(tag)

    def adopt(self, made: Any, parent: Communicator, sequence: object, label: str) -> Any:
        """Return a communicator that was just made as a watched one."""
        mpi = self.mpi
        recorder = SESSION.recorder
        if recorder is None or made is None or made == mpi.COMM_NULL or made.Is_inter():
            return made
        kind = self.classes.get(type(made), type(made))
        watched: Any = made if type(made) is kind else kind(made)
        group, world_group = made.Get_group(), mpi.COMM_WORLD.Get_group()
        ranks = mpi.Group.Translate_ranks(group, range(group.Get_size()), world_group)
        group.Free()
        world_group.Free()
        if any(rank < 0 for rank in ranks):
            return watched
        identity = identity_of(parent.identity, sequence, tuple(ranks))
        watched._paceline = recorder.communicator(identity, label, ranks, made.Get_rank())
        return watched
