"""How to read the tables of counts that mpi4py's collectives take: what this member sends and expects, by member.

TABLES and NEIGHBOUR_TABLES say which operations have one, and which method reads it from the arguments, just as the
user gave them and under mpi4py's names. A buffer argument is understood as mpi4py understands it, down to the counts
that it works out for itself. What cannot be read is left to mpi4py, which says better what is wrong with it: then there
is not a table, and nothing is compared.
"""

# ruff: noqa: D102 (the methods are entries of a table: each is named after the operation whose arguments it reads)

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.count_tables import (
    TableRead,
    all_gather_table,
    amount,
    gather_table,
    reduce_scatter_table,
    scatter_table,
)
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.shared_memory.layout import UNKNOWN_BYTES
from paceline.guard.shared_memory.pair_board import UNKNOWN_AMOUNT, Table

_UNREADABLE = (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError)
_MAX_KEPT_TYPES = 64
_INTEGERS = frozenset([int])

_TypeFacts = tuple[int, int, int]  # code of the element type (0: any), bytes of data, extent
_Parts = tuple[Any, Any, Any, Any]  # data, counts, displacements, type; each but the first may be None


class TableReader:
    """Reads tables of counts for one mpi4py."""

    __slots__ = ("_bottom", "_buffers", "_datatype", "_error", "_in_place", "_known_types", "_two_sided")

    def __init__(self, mpi: Any, buffers: Buffers) -> None:
        self._buffers, self._datatype, self._error = buffers, mpi.Datatype, mpi.Exception
        self._in_place, self._bottom, self._two_sided = mpi.IN_PLACE, mpi.BOTTOM, mpi.Intercomm
        self._known_types: dict[int, tuple[Any, _TypeFacts]] = {}  # by id; the object is kept, so the id is its own

    def of(self, name: str) -> TableRead | None:
        """Return what reads the table of an operation from its arguments; None if the operation has none."""
        method, among_neighbours = TABLES.get(name), NEIGHBOUR_TABLES.get(name)
        if method is None and among_neighbours is None:
            return None
        unreadable = (*_UNREADABLE, self._error)

        def read(communicator: Communicator, comm: Any, *args: Any, **named: Any) -> Table | None:
            if isinstance(comm, self._two_sided):
                return None  # its tables are by members of the other side
            try:
                if method is not None:
                    return method(self, communicator, *args, **named)
                return self._among_neighbours(communicator, comm, among_neighbours, *args, **named)
            except unreadable:
                return None

        return read

    def alltoallv(self, communicator: Communicator, sendbuf: Any, recvbuf: Any, **_: Any) -> Table:
        expects = self._vector(recvbuf, len(communicator.ranks))
        return expects if sendbuf is self._in_place else self._vector(sendbuf, len(communicator.ranks)), expects

    def alltoallw(self, communicator: Communicator, sendbuf: Any, recvbuf: Any, **_: Any) -> Table:
        expects = self._vector_with_types(recvbuf, len(communicator.ranks))
        if sendbuf is self._in_place:
            return expects, expects
        return self._vector_with_types(sendbuf, len(communicator.ranks)), expects

    def gatherv(self, communicator: Communicator, sendbuf: Any, recvbuf: Any, root: Any = 0, **_: Any) -> Table | None:
        member, root = communicator.member, operator.index(root)
        if not 0 <= root < len(communicator.ranks):
            return None
        expects = self._vector(recvbuf, len(communicator.ranks)) if member == root else None
        in_place = expects is not None and sendbuf is self._in_place
        return gather_table(
            communicator, root, expects[root] if expects and in_place else self._simple(sendbuf), expects
        )

    def scatterv(self, communicator: Communicator, sendbuf: Any, recvbuf: Any, root: Any = 0, **_: Any) -> Table | None:
        member, root = communicator.member, operator.index(root)
        if not 0 <= root < len(communicator.ranks):
            return None
        sends = self._vector(sendbuf, len(communicator.ranks)) if member == root else None
        in_place = sends is not None and recvbuf is self._in_place
        return scatter_table(communicator, root, sends, sends[root] if sends and in_place else self._simple(recvbuf))

    def allgatherv(self, communicator: Communicator, sendbuf: Any, recvbuf: Any, **_: Any) -> Table:
        expects = self._vector(recvbuf, len(communicator.ranks))
        in_place = sendbuf is self._in_place
        return all_gather_table(expects[communicator.member] if in_place else self._simple(sendbuf), expects)

    def reduce_scatter(
        self, communicator: Communicator, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Any = None, **_: Any
    ) -> Table | None:
        if recvcounts is None:
            return None  # mpi4py asks all members for theirs
        parts = self._parts(recvbuf)
        code, item, _extent = self._type_facts(parts[0], parts[3])
        sends = _amounts(code, item, self._counts(recvcounts, len(communicator.ranks)))
        return reduce_scatter_table(sends, sends[communicator.member])

    def _among_neighbours(
        self, communicator: Communicator, comm: Any, method: Any, sendbuf: Any, recvbuf: Any, **_: Any
    ) -> Table:
        """Return the table of a call among neighbours, whose counts are in the order of the neighbours."""
        destinations, sources = comm.outedges, comm.inedges
        sends, expects = method(self, len(destinations), len(sources), sendbuf, recvbuf)
        num_members = len(communicator.ranks)
        return _by_member(destinations, sends, num_members), _by_member(sources, expects, num_members)

    def neighbor_allgatherv(self, num_out: int, num_in: int, sendbuf: Any, recvbuf: Any) -> Table:
        return [self._simple(sendbuf)] * num_out, self._vector(recvbuf, num_in)

    def neighbor_alltoallv(self, num_out: int, num_in: int, sendbuf: Any, recvbuf: Any) -> Table:
        return self._vector(sendbuf, num_out), self._vector(recvbuf, num_in)

    def neighbor_alltoallw(self, num_out: int, num_in: int, sendbuf: Any, recvbuf: Any) -> Table:
        return self._vector_with_types(sendbuf, num_out), self._vector_with_types(recvbuf, num_in)

    # buffer arguments, as mpi4py reads them

    def _simple(self, spec: Any) -> int:
        """Return what a buffer for one member holds."""
        data, count, offset, datatype = self._parts(spec)
        if isinstance(count, list | tuple):
            count, offset = count
        code, item, extent = self._type_facts(data, datatype)
        if count is None:
            num_bytes = self._num_bytes(data) - (0 if offset is None else operator.index(offset) * extent)
            count = num_bytes // extent if num_bytes > 0 else 0
        return amount(code, operator.index(count) * item)

    def _vector(self, spec: Any, num_members: int) -> list[int]:
        """Return what a buffer for all members holds for each of them."""
        data, counts, _, datatype = self._parts(spec)
        if isinstance(counts, tuple) and not (isinstance(spec, list | tuple) and len(spec) == 4):
            counts, _ = counts
        code, item, extent = self._type_facts(data, datatype)
        if counts is None:  # mpi4py deals the elements out, and gives the first members one more each
            num_bytes = self._num_bytes(data)
            each, more = divmod(num_bytes // extent if num_bytes > 0 else 0, num_members)
            numbers = [each + (member < more) for member in range(num_members)]
        else:
            numbers = self._counts(counts, num_members)
        return _amounts(code, item, numbers)

    def _vector_with_types(self, spec: Any, num_members: int) -> list[int]:
        """Return what a buffer holds for each member, where each has a type of its own."""
        counts: Any = None
        if len(spec) == 2:
            _, types = spec
        elif len(spec) == 3:
            _, (counts, _), types = spec
        else:
            _, counts, _, types = spec
        numbers = [1] * num_members if counts is None else self._counts(counts, num_members)
        facts = [self._type_facts(None, datatype) for datatype in types]
        return [amount(code, count * item) for count, (code, item, _) in zip(numbers, facts, strict=True)]

    def _parts(self, spec: Any) -> _Parts:
        """Take `data`, `[data, type]`, `[data, counts]`, `[data, counts, type]` or one with displacements apart."""
        if not isinstance(spec, list | tuple):
            return spec, None, None, None
        if len(spec) == 2:
            data, second = spec
            return (
                (data, None, None, second) if isinstance(second, str | self._datatype) else (data, second, None, None)
            )
        if len(spec) == 3:
            return spec[0], spec[1], None, spec[2]
        data, counts, offsets, datatype = spec
        return data, counts, offsets, datatype

    def _counts(self, counts: Any, num_members: int) -> Any:
        """Return a count for each member: one number stands for all."""
        as_list = getattr(counts, "tolist", None)
        values = as_list() if as_list is not None else counts
        if not isinstance(values, list | tuple):
            try:
                return [operator.index(values)] * num_members
            except TypeError:
                values = list(values)
        if len(values) != num_members:
            raise ValueError("mpi4py refuses tables of another length")
        return values if _INTEGERS.issuperset(map(type, values)) else [operator.index(value) for value in values]

    def _num_bytes(self, data: Any) -> int:
        if data is None or data is self._bottom:
            raise ValueError("how much it holds is not known")
        num_bytes = self._buffers.size(data)[1]
        if num_bytes < 0:
            raise ValueError("how much it holds is not known")
        return num_bytes

    def _type_facts(self, data: Any, datatype: Any) -> _TypeFacts:
        """Return what is known of the elements: by their type, or else by those of the data."""
        if datatype is None:
            code, num_bytes, count = self._buffers.size(data)
            if num_bytes < 0:
                raise ValueError("the type of its elements is not known")
            item = num_bytes // count if count > 0 else int(getattr(data, "itemsize", 0)) or memoryview(data).itemsize
            return code, item, item
        known = self._known_types.get(id(datatype))
        if known is not None:
            return known[1]
        found = self._datatype.fromcode(datatype) if isinstance(datatype, str) else datatype
        code, item = self._buffers.code_and_bytes(found)
        facts = code, item, found.Get_extent()[1]
        if found.is_predefined and len(self._known_types) < _MAX_KEPT_TYPES:  # others may be freed, and made again
            self._known_types[id(datatype)] = datatype, facts
        return facts


def _amounts(code: int, item: int, counts: list[int]) -> list[int]:
    """Return numbers of elements as words of a table, as `amount` does, all at once."""
    if counts and (min(counts) < 0 or max(counts) * item >= UNKNOWN_BYTES):
        raise ValueError("mpi4py refuses such counts")
    dtype = code << 56
    return [dtype | count * item if count else 0 for count in counts]


def _by_member(neighbours: list[int], amounts: list[int], num_members: int) -> list[int]:
    """Return amounts by member. Of one that is a neighbour twice, as in a ring of two, it is not known which is which.

    >>> _by_member([2, 0, -1], [16, 8, 4], 3) == [8, UNKNOWN_AMOUNT, 16]
    True
    """
    found = [UNKNOWN_AMOUNT] * num_members
    for neighbour, one in zip(neighbours, amounts, strict=True):
        if neighbour >= 0:  # others stand for nobody, at the edge of a grid
            found[neighbour] = one if neighbours.count(neighbour) == 1 else UNKNOWN_AMOUNT
    return found


TABLES: dict[str, Callable[..., Table | None]] = {
    "Alltoallv": TableReader.alltoallv,
    "Alltoallw": TableReader.alltoallw,
    "Gatherv": TableReader.gatherv,
    "Scatterv": TableReader.scatterv,
    "Allgatherv": TableReader.allgatherv,
    "Reduce_scatter": TableReader.reduce_scatter,
}
NEIGHBOUR_TABLES: dict[str, Callable[..., Table]] = {
    "Neighbor_allgatherv": TableReader.neighbor_allgatherv,
    "Neighbor_alltoallv": TableReader.neighbor_alltoallv,
    "Neighbor_alltoallw": TableReader.neighbor_alltoallw,
}
