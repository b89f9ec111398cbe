"""How mpi4py's constants and numbers read in a record: ranks, roots, tags and reductions."""

from __future__ import annotations

from typing import Any

from paceline.guard.shared_memory.layout import ANY, NOBODY
from paceline.guard.shared_memory.nobody import encode_outsider
from paceline.guard.shared_memory.operations import REDUCTION_CODES

_MOST = 1 << 31  # a record has 32 bits for a rank or a tag
_NOT_OF_MPI = {"none", "AVG", "PREMUL_SUM", "custom", "unknown"}


class MpiConstants:
    """The constants of one mpi4py: which numbers mean any and nobody differs from one MPI to the next."""

    __slots__ = ("_any_source", "_any_tag", "_operation", "_proc_null", "_reductions", "_sum", "_sum_code")

    def __init__(self, mpi: Any) -> None:
        self._any_source, self._any_tag, self._proc_null = mpi.ANY_SOURCE, mpi.ANY_TAG, mpi.PROC_NULL
        self._operation = mpi.Op
        names = REDUCTION_CODES.keys() - _NOT_OF_MPI
        self._reductions = [(getattr(mpi, name), REDUCTION_CODES[name]) for name in names]
        self._sum, self._sum_code = mpi.SUM, REDUCTION_CODES["SUM"]

    def reduction(self, operation: Any) -> int:
        """Return the code of a reduction; None stands for the default, which is SUM."""
        if operation is None or operation is self._sum:
            return self._sum_code
        if isinstance(operation, self._operation):
            for known, code in self._reductions:
                if operation == known:
                    return code
        return REDUCTION_CODES["custom"]

    def predefined_reductions(self) -> tuple[tuple[Any, int], ...]:
        """Return the reductions that are MPI's own, the default first, with their codes."""
        return (None, self._sum_code), (self._sum, self._sum_code), *self._reductions

    def peer(self, rank: Any) -> int:
        """Return the peer of a message as records have it."""
        if rank.__class__ is not int:
            rank = whole_number(rank)
        if 0 <= rank < _MOST:
            return rank  # type: ignore[no-any-return]
        if rank == self._any_source:
            return ANY
        return NOBODY if rank == self._proc_null else encode_outsider(rank)

    def tag(self, tag: Any) -> int:
        """Return the tag of a receive as records have it."""
        return ANY if tag == self._any_tag else number_or_outsider(tag)


def number_or_outsider(value: Any) -> int:
    """Return a root, or the tag of a send, as records have it: no negative number names one.

    >>> number_or_outsider(3), number_or_outsider(2.0), number_or_outsider(-1) < -3, number_or_outsider(2**40) < -3
    (3, 2, True, True)
    """
    number = value if value.__class__ is int else whole_number(value)
    return number if 0 <= number < _MOST else encode_outsider(number)


def whole_number(value: Any) -> int:
    """Return what mpi4py takes for a whole number as one of Python: numpy's would overflow later."""
    if isinstance(value, str | bytes):
        raise TypeError(f"an integer is required, not {value!r}")
    return int(value)
