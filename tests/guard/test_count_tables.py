"""Tables of counts are read from mpi4py's arguments as mpi4py reads them, and from torch's as torch does."""

from __future__ import annotations

import array
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi import mpi_collective_arguments, mpi_count_tables
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.mpi.mpi_count_tables import TableReader
from paceline.guard.rank.torch import torch_collective_arguments, torch_count_tables
from paceline.guard.rank.torch.torch_count_tables import TorchTableReader
from paceline.guard.shared_memory.board import pack_size
from paceline.guard.shared_memory.operations import DTYPE_CODES
from paceline.guard.shared_memory.pair_board import UNKNOWN_AMOUNT


class Datatype:
    """A type of mpi4py as far as it matters here."""

    def __init__(self, typestr: str, size: int, *, extent: int = 0, is_predefined: bool = True) -> None:
        self.typestr, self.size, self.extent, self.is_predefined = typestr, size, extent or size, is_predefined

    def Get_size(self) -> int:  # noqa: N802
        return self.size

    def Get_extent(self) -> tuple[int, int]:  # noqa: N802
        return 0, self.extent

    @classmethod
    def fromcode(cls, code: str) -> Datatype:
        return {"d": DOUBLE, "i": INT}[code]


class Intercomm:
    """A communicator with two sides."""


DOUBLE, INT, BYTE = Datatype("f8", 8), Datatype("i4", 4), Datatype("V1", 1)
PAIR = Datatype("f8", 16, extent=24, is_predefined=False)
MPI = SimpleNamespace(
    Datatype=Datatype,
    BYTE=BYTE,
    PACKED=BYTE,
    CHAR=BYTE,
    IN_PLACE=object(),
    BOTTOM=object(),
    Exception=RuntimeError,
    Intercomm=Intercomm,
)


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Communicator]:
    joined = Recorder(tmp_path, "job.0.1", rank=1, world_size=3)
    found = joined.communicator("mpi-world", "WORLD", range(3), 1)
    assert found is not None
    yield found
    joined.ring.words.release()
    joined.ring.bytes.close()


def read(communicator: Communicator, name: str, *args: Any, **named: Any) -> Any:
    reader = TableReader(MPI, Buffers(MPI)).of(name)
    assert reader is not None
    return reader(communicator, object(), *args, **named)


def f8(*counts: int) -> list[int]:
    return [pack_size(DTYPE_CODES["f8"], 8 * count) for count in counts]


DATA = numpy.zeros(7)


@pytest.mark.parametrize(
    "spec",
    [
        [DATA, [1, 2, 0]],
        (DATA, numpy.array([1, 2, 0], dtype="i4")),
        [DATA, ([1, 2, 0], [0, 3, 5])],
        [DATA, ([1, 2, 0], None), DOUBLE],
        [DATA, (1, 2, 0), None, "d"],
        [DATA, array.array("i", [1, 2, 0]), [0, 3, 5], DOUBLE],
        [None, [1, 2, 0], DOUBLE],
    ],
)
def test_tables_are_read_in_all_forms(trio: Communicator, spec: Any) -> None:
    assert read(trio, "Alltoallv", spec, spec) == (f8(1, 2, 0), f8(1, 2, 0))


def test_counts_that_are_not_given_are_dealt_out_as_mpi4py_does(trio: Communicator) -> None:
    assert read(trio, "Alltoallv", DATA, [DATA, DOUBLE]) == (f8(3, 2, 2), f8(3, 2, 2))
    assert read(trio, "Alltoallv", [DATA, 2], [DATA, 1, DOUBLE]) == (f8(2, 2, 2), f8(1, 1, 1))


def test_a_type_of_the_users_own_counts_its_data_and_not_its_gaps(trio: Communicator) -> None:
    sends, expects = read(trio, "Alltoallv", [numpy.zeros(9), PAIR], [DATA.view("u1"), [16, 0, 8], BYTE])
    assert (sends, expects) == ([16, 16, 16], [16, 0, 8])


def test_in_place_what_is_sent_is_what_is_expected(trio: Communicator) -> None:
    assert read(trio, "Alltoallv", MPI.IN_PLACE, [DATA, [1, 2, 3]]) == (f8(1, 2, 3), f8(1, 2, 3))
    assert read(trio, "Allgatherv", MPI.IN_PLACE, [DATA, [1, 2, 3]]) == (f8(2, 2, 2), f8(1, 2, 3))
    assert read(trio, "Gatherv", MPI.IN_PLACE, [DATA, [1, 2, 3]], root=1) == (f8(0, 2, 0), f8(1, 2, 3))
    assert read(trio, "Scatterv", [DATA, [1, 2, 3]], MPI.IN_PLACE, 1) == (f8(1, 2, 3), f8(0, 2, 0))


def test_members_do_not_read_what_only_the_root_uses(trio: Communicator) -> None:
    assert read(trio, "Gatherv", [DATA, (3, 1), DOUBLE], "nonsense", root=0) == (f8(3, 0, 0), f8(0, 0, 0))
    assert read(trio, "Scatterv", "nonsense", [DATA, 3, 1, DOUBLE], root=2) == (f8(0, 0, 0), f8(0, 0, 3))


def test_types_by_pairs(trio: Communicator) -> None:
    sends, _ = read(trio, "Alltoallw", [DATA, ([1, 2, 0], [0, 0, 0]), [DOUBLE, INT, BYTE]], [DATA, [DOUBLE] * 3])
    assert sends == [*f8(1), pack_size(DTYPE_CODES["i4"], 8), 0]


def test_counts_of_neighbours_are_in_their_order(trio: Communicator) -> None:
    reader = TableReader(MPI, Buffers(MPI)).of("Neighbor_alltoallv")
    assert reader is not None
    line = SimpleNamespace(outedges=[2, 0], inedges=[0, -2])
    assert reader(trio, line, [DATA, [1, 2]], [DATA, [3, 4]]) == (
        [*f8(2), UNKNOWN_AMOUNT, *f8(1)],
        [*f8(3), UNKNOWN_AMOUNT, UNKNOWN_AMOUNT],
    )
    ring_of_two = SimpleNamespace(outedges=[0, 0], inedges=[0, 0])
    assert reader(trio, ring_of_two, [DATA, [1, 2]], [DATA, [3, 4]]) == ([UNKNOWN_AMOUNT] * 3, [UNKNOWN_AMOUNT] * 3)
    assert reader(trio, object(), DATA, DATA) is None


def test_members_of_the_other_side_of_an_intercommunicator_are_not_taken_for_ours(trio: Communicator) -> None:
    reader = TableReader(MPI, Buffers(MPI)).of("Alltoallv")
    assert reader is not None
    assert reader(trio, object(), [DATA, 1], [DATA, 1]) is not None
    assert reader(trio, Intercomm(), [DATA, 1], [DATA, 1]) is None


def test_a_table_of_parts_that_are_added_up(trio: Communicator) -> None:
    assert read(trio, "Reduce_scatter", numpy.zeros(6), DATA, [1, 2, 3]) == (f8(1, 2, 3), f8(2, 2, 2))
    assert read(trio, "Reduce_scatter", numpy.zeros(6), DATA) is None  # mpi4py asks the others


@pytest.mark.parametrize(
    "spec",
    [[DATA, [1, 2]], [DATA, [1.5, 2, 3]], [DATA, "no such type"], [DATA, 1, 2, 3, 4], object(), None, [DATA, "x"]],
)
def test_what_mpi4py_refuses_has_no_table(trio: Communicator, spec: Any) -> None:
    assert read(trio, "Alltoallv", spec, [DATA, [1, 2, 3]]) is None
    assert read(trio, "Gatherv", DATA, [DATA, [1, 2, 3]], root=5) is None


def test_tables_are_read_under_the_names_that_other_arguments_are_read_under() -> None:
    for name, method in mpi_count_tables.TABLES.items():
        ours = method.__code__.co_varnames[2 : method.__code__.co_argcount]
        other = mpi_collective_arguments.READERS[name]
        if other is not mpi_collective_arguments.CollectiveReader.nothing:
            assert ours == other.__code__.co_varnames[2 : other.__code__.co_argcount], name
    for name, method in torch_count_tables.TABLES.items():
        theirs = torch_collective_arguments.READERS[name][1].__code__
        ours = method.__code__.co_varnames[2 : method.__code__.co_argcount]
        assert ours == theirs.co_varnames[1 : theirs.co_argcount], name


def tensor_size(tensor: Any) -> tuple[int, int, int]:
    return DTYPE_CODES["f8"], tensor.numel() * 8, tensor.numel()


def read_torch(communicator: Communicator, name: str, *args: Any, **named: Any) -> Any:
    watch: Any = SimpleNamespace(size=tensor_size)
    reader = TorchTableReader(watch).of(name)
    assert reader is not None
    return reader(communicator, *args, **named)


def mine(*counts: int) -> list[int]:
    """Return the amounts of the second of three members, which leaves what it keeps for itself to torch."""
    first, _, last = f8(*counts)
    return [first, UNKNOWN_AMOUNT, last]


def test_splits_count_rows(trio: Communicator) -> None:
    given, taken = torch.zeros(6, 2), torch.zeros(3, 2)
    assert read_torch(trio, "all_to_all_single", taken, given, None, [1, 2, 3]) == (mine(2, 4, 6), f8(2, 2, 2))
    assert read_torch(trio, "all_to_all_single", taken, given, [3, 0, 0], [6, 0, 0]) == (mine(12, 0, 0), f8(6, 0, 0))
    assert read_torch(trio, "all_to_all_single", taken, given) is None
    assert read_torch(trio, "all_to_all_single", taken, given, [1, 1, 1], [1, 1, 1]) is None  # torch refuses it


def test_complex_numbers_are_exchanged_as_real_ones(trio: Communicator) -> None:
    watch: Any = SimpleNamespace(size=lambda tensor: (DTYPE_CODES["c16"], tensor.numel() * 16, tensor.numel()))
    reader = TorchTableReader(watch).of("all_gather")
    assert reader is not None
    assert reader(trio, [torch.zeros(1)] * 3, torch.zeros(1)) == (mine(2, 2, 2), f8(2, 2, 2))


def test_lists_of_tensors(trio: Communicator) -> None:
    parts = [torch.zeros(count) for count in (1, 2, 3)]
    assert read_torch(trio, "all_to_all", parts, parts[::-1]) == (mine(3, 2, 1), f8(1, 2, 3))
    assert read_torch(trio, "all_gather", parts, torch.zeros(2)) == (mine(2, 2, 2), f8(1, 2, 3))
    assert read_torch(trio, "reduce_scatter", torch.zeros(2), parts) == (f8(1, 2, 3), mine(2, 2, 2))
    assert read_torch(trio, "gather", torch.zeros(2), parts, dst=1) == (mine(0, 2, 0), f8(1, 2, 3))
    assert read_torch(trio, "gather", torch.zeros(2), None, dst=0) == (mine(2, 0, 0), f8(0, 0, 0))
    assert read_torch(trio, "scatter", torch.zeros(2), parts, src=1) == (mine(1, 2, 3), f8(0, 2, 0))
    assert read_torch(trio, "scatter", torch.zeros(2), None, group_src=2) == (mine(0, 0, 0), f8(0, 0, 2))
    assert read_torch(trio, "all_gather", parts[:2], torch.zeros(2)) is None
