"""A group of one: every collective is the identity."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from paceline.comm.arrays import as_numpy, check_counts, check_reducible, check_root, like
from paceline.comm.comm import Array, Reduction


class AloneComm:
    """The only rank there is."""

    rank = 0
    world_size = 1
    carrier = "alone"
    is_thread_safe = True
    is_whole_job = True
    carries_host_memory = True

    def barrier(self) -> None:
        """Wait for nobody."""

    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Return a copy: what comes back is never the caller's own memory."""
        check_root(root, 1)
        return self._copy(array)

    def all_gather(self, array: Array) -> Array:
        """Return the array with a dimension for the one rank."""
        result: Array = like(as_numpy(array).copy()[None], array)
        return result

    def all_to_all(self, array: Array, send_counts: Sequence[int], receive_counts: Sequence[int]) -> Array:
        """Return a copy of the rows."""
        check_counts(array, send_counts, receive_counts, 1)
        return self._copy(array)

    def all_reduce(self, array: Array, reduction: Reduction | str = Reduction.SUM) -> Array:
        """Return a copy: one number is its own sum."""
        check_reducible(array)
        Reduction(reduction)
        return self._copy(array)

    def duplicate(self) -> AloneComm:
        """Return another group of one."""
        return AloneComm()

    def free(self) -> None:
        """There is nothing to let go of."""

    def abort(self, reason: str) -> None:
        """End this process."""
        sys.exit(f"paceline: aborted: {reason}")

    @staticmethod
    def _copy(array: Array) -> Array:
        result: Array = like(as_numpy(array).copy(), array)
        return result
