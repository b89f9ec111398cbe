"""MPI as a carrier, by mpi4py, with MPICH or Open MPI."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from paceline.comm.arrays import as_numpy, check_counts, check_reducible, check_root, like
from paceline.comm.comm import Array, Reduction

_REDUCE = {Reduction.SUM: MPI.SUM, Reduction.PRODUCT: MPI.PROD, Reduction.MIN: MPI.MIN, Reduction.MAX: MPI.MAX}


class MpiComm:
    """An intracommunicator of MPI. Make it from your own; it duplicates nothing by itself."""

    carrier = "mpi"
    carries_host_memory = True

    def __init__(self, communicator: MPI.Intracomm | None = None) -> None:
        self._mpi = communicator if communicator is not None else MPI.COMM_WORLD

    @property
    def communicator(self) -> MPI.Intracomm:
        """The communicator of mpi4py."""
        return self._mpi

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        return self._mpi.Get_rank()

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return self._mpi.Get_size()

    @property
    def is_thread_safe(self) -> bool:
        """Whether this MPI was started so that several threads may call it at a time."""
        return MPI.Query_thread() == MPI.THREAD_MULTIPLE

    @property
    def is_whole_job(self) -> bool:
        """Whether these are all ranks of the job."""
        return self.world_size == MPI.COMM_WORLD.Get_size()

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self._mpi.Barrier()

    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Return the root's array on every rank."""
        check_root(root, self.world_size)
        result = as_numpy(array).copy()
        self._mpi.Bcast(_bytes(result), root)
        return _as(result, array)

    def all_gather(self, array: Array) -> Array:
        """Return all ranks' arrays, stacked."""
        own = as_numpy(array)
        result = np.empty((self.world_size, *own.shape), dtype=own.dtype)
        self._mpi.Allgather(_bytes(own), _bytes(result))
        return _as(result, array)

    def all_to_all(self, array: Array, send_counts: Sequence[int], receive_counts: Sequence[int]) -> Array:
        """Send rows to every rank and return the rows that came."""
        check_counts(array, send_counts, receive_counts, self.world_size)
        own = as_numpy(array)
        result = np.empty((sum(receive_counts), *own.shape[1:]), dtype=own.dtype)
        width = int(np.prod(own.shape[1:], dtype=np.int64)) * own.itemsize
        sent = [count * width for count in send_counts]
        came = [count * width for count in receive_counts]
        self._mpi.Alltoallv([_bytes(own), sent, MPI.BYTE], [_bytes(result), came, MPI.BYTE])
        return _as(result, array)

    def all_reduce(self, array: Array, reduction: Reduction | str = Reduction.SUM) -> Array:
        """Return the elementwise sum, product, least or largest."""
        check_reducible(array)
        own = as_numpy(array)
        result = np.empty_like(own)
        self._mpi.Allreduce(own, result, _REDUCE[Reduction(reduction)])
        return _as(result, array)

    def duplicate(self) -> MpiComm:
        """Return a duplicated communicator."""
        return MpiComm(self._mpi.Dup())

    def free(self) -> None:
        """Free the communicator, if MPI still runs."""
        if not MPI.Is_finalized() and self._mpi != MPI.COMM_WORLD:
            self._mpi.Free()

    def abort(self, reason: str) -> None:
        """End all ranks of the job."""
        print(f"paceline: rank {self.rank} aborted: {reason}", file=sys.stderr, flush=True)
        self._mpi.Abort(1)


def _bytes(array: Any) -> Any:
    return array.reshape(-1).view(np.uint8)


def _as(result: Any, array: Array) -> Array:
    converted: Array = like(result, array)
    return converted
