"""Reads what came out of mpi4py's collectives that give all members the same: the buffer, and a checksum of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.remarks.compared_results import ComparedResults, checksum_of
from paceline.guard.rank.watched_calls import Named, make_blocked_call

_UNREADABLE = (TypeError, ValueError, BufferError, AttributeError)


def _of_bcast(comm: Any, buf: Any, *args: Any, **_: Any) -> Any:
    return buf


def _of_both(comm: Any, sendbuf: Any, recvbuf: Any, *args: Any, **_: Any) -> Any:
    return recvbuf


# operation -> what returns the buffer that holds the same on all members afterwards
_RESULTS: dict[str, Callable[..., Any]] = {"Bcast": _of_bcast, "Allreduce": _of_both, "Allgather": _of_both}


class MpiResults:
    """Compares results for one mpi4py."""

    def __init__(self, buffers: Buffers, find: Callable[[Any], Communicator | None]) -> None:
        """Compare; `find` returns what is known of a communicator."""
        self._buffers, self._find, self._compared = buffers, find, ComparedResults()

    def making(self, name: str) -> Callable[..., Any]:
        """Return what makes a blocking collective: with a look at its result, if all members get the same."""
        result_of = _RESULTS.get(name)
        if result_of is None:
            return make_blocked_call

        def make(recorder: Recorder, number: int, function: Any, args: tuple[Any, ...], named: Named) -> Any:
            value = make_blocked_call(recorder, number, function, args, named)
            communicator = self._find(args[0])
            checksum = self._checksum(result_of(*args, **named))
            if communicator is not None and checksum is not None:
                self._compared.compare(recorder, number, communicator, checksum)
            return value

        return make

    def _checksum(self, spec: Any) -> int | None:
        """Return the checksum of a plain buffer; None for others, and for numbers of which some are not a number.

        Those have many forms, and which one comes out of a sum depends on the order. So does the sign of a zero.
        """
        try:
            if not self._buffers.is_array(spec):
                return None if isinstance(spec, list | tuple) else checksum_of(spec)
            if spec.dtype.kind in "fc":
                numbers = spec + 0
                return None if (numbers != numbers).any() else checksum_of(numbers.tobytes())
            return checksum_of(spec.tobytes())
        except _UNREADABLE:
            return None
