"""What ranks can do together, the same over threads, torch.distributed and MPI.

Arrays are numpy arrays or torch tensors; what comes back is of the same kind. Every call is collective: all
ranks make it, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

from paceline.errors import PacelineError

Array = TypeVar("Array")


class Reduction(StrEnum):
    """How `all_reduce` puts numbers together."""

    SUM = "sum"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"


class CommError(PacelineError):
    """A collective could not be carried out: a peer failed, left, or was too late."""


class Comm(Protocol):
    """A group of ranks that can work together."""

    @property
    def rank(self) -> int:
        """This rank, from 0."""

    @property
    def world_size(self) -> int:
        """How many ranks there are."""

    @property
    def carrier(self) -> str:
        """What carries it: alone, threads, torch or mpi."""

    @property
    def is_thread_safe(self) -> bool:
        """Whether a thread may call on a duplicate while another calls on this one."""

    @property
    def carries_host_memory(self) -> bool:
        """Whether arrays may be in the host's memory; NCCL takes only those on a GPU."""

    @property
    def is_whole_job(self) -> bool:
        """Whether these are all ranks of the job."""

    def barrier(self) -> None:
        """Wait until all ranks are here."""

    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Return the root's array on every rank. Others give one of the same shape and dtype."""

    def all_gather(self, array: Array) -> Array:
        """Return all ranks' arrays, stacked: (world_size, *shape). They must have the same shape and dtype."""

    def all_to_all(self, array: Array, send_counts: Sequence[int], receive_counts: Sequence[int]) -> Array:
        """Send rows to every rank and return the rows that came, in the order of ranks.

        Args:
            array: Rows for rank 0, then for rank 1, and so on.
            send_counts: How many rows go to each rank; 0 is allowed.
            receive_counts: How many rows come from each rank.
        """

    def all_reduce(self, array: Array, reduction: Reduction | str = Reduction.SUM) -> Array:
        """Return the elementwise sum, product, least or largest of all ranks' arrays."""

    def duplicate(self) -> Comm:
        """Return a group of the same ranks whose calls cannot be mixed up with this one's."""

    def free(self) -> None:
        """Let go of a duplicate, which is of no more use then. All ranks call it, when nothing is under way."""

    def abort(self, reason: str) -> None:
        """End the whole job: no rank is left waiting for this one."""
