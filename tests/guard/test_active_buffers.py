"""The memory that requests use: what overlaps, what a blocking call uses, what has changed, and what is left out."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.compiled_recorder import RecorderInUse
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.mpi.mpi_memory import MemoryReader, is_sole_holder
from paceline.guard.rank.remarks.active_buffers import ActiveBuffers, UsedMemory
from paceline.guard.rank.remarks.memory_table import MemoryTable
from paceline.guard.shared_memory.layout import NOBODY, NONBLOCKING
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.snapshot import Remark


class Cell(UsedMemory):
    """Memory that is written to on request."""

    __slots__ = ("is_written",)

    def __init__(self, begin: int, num_bytes: int, *, writes: bool = False) -> None:
        super().__init__(begin, num_bytes, writes=writes)
        self.is_written = False

    def has_changed(self) -> bool:
        return self.is_written


class WeakCell(Cell):
    """One that can be referred to weakly."""

    __slots__ = ("__weakref__",)


@pytest.fixture(params=[Recorder, RecorderInUse])
def recorder(tmp_path: Path, request: pytest.FixtureRequest) -> Recorder:
    kind: type[Recorder] = request.param
    return kind(tmp_path, "world.0", rank=0, world_size=1)


def told(recorder: Recorder) -> list[tuple[str, str, str]]:
    return [(remark.what, remark.how, str(remark.facts.get("other", ""))) for remark in remarks(recorder)]


def remarks(recorder: Recorder) -> tuple[Remark, ...]:
    reader = RingReader(recorder.folder / "ring.world.0")
    reader.read_texts()
    found = reader.remarks()
    reader.close()
    return found


def post(recorder: Recorder, name: str, *memory: UsedMemory) -> tuple[UsedMemory, ...]:
    """Post a request, as a call of this file."""
    request = recorder.requests.take()
    number = recorder.begin_message(0, BY_NAME[name].code, request=request, flags=NONBLOCKING, depth=2)
    recorder.requests.keep(request, number)
    recorder.buffers.begin(request, memory)
    return memory


def call(recorder: Recorder, name: str, begin: int, num_bytes: int, **more: Any) -> None:
    """Make a call that blocks."""
    recorder.buffers.note_use(begin, num_bytes)
    recorder.begin_message(0, BY_NAME[name].code, num_bytes=num_bytes, depth=1, **more)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Cell(0, 8), Cell(0, 8), False),
        (Cell(0, 8, writes=True), Cell(0, 8), True),
        (Cell(0, 8), Cell(4, 8, writes=True), True),
        (Cell(0, 8, writes=True), Cell(8, 8, writes=True), False),
        (Cell(8, 8, writes=True), Cell(0, 8), False),
        (Cell(0, 100, writes=True), Cell(50, 1), True),
        (Cell(50, 1, writes=True), Cell(0, 100), True),
    ],
)
def test_two_requests_overlap_if_they_share_a_byte_and_one_writes(
    recorder: Recorder, first: Cell, second: Cell, expected: bool
) -> None:
    post(recorder, "Irecv", first)
    post(recorder, "Isend", second)
    assert told(recorder) == ([("Isend", "overlaps", "Irecv")] if expected else [])


def test_the_lines_of_both_requests_are_told(recorder: Recorder) -> None:
    first = sys._getframe().f_lineno + 1
    post(recorder, "Irecv", Cell(0, 8, writes=True))
    post(recorder, "Isend", Cell(0, 8))
    (remark,) = remarks(recorder)
    assert remark.site.endswith(f"test_active_buffers.py:{first + 1}")
    assert remark.facts["other_at"].endswith(f"test_active_buffers.py:{first}")


def test_a_request_that_has_completed_or_is_gone_uses_nothing(recorder: Recorder) -> None:
    recorder.buffers.end(post(recorder, "Irecv", Cell(0, 8, writes=True)))
    recorder.buffers.gone.append(post(recorder, "Irecv", Cell(0, 8, writes=True)))
    post(recorder, "Irecv", Cell(0, 8, writes=True))
    assert told(recorder) == []


def test_the_arguments_of_one_call_are_not_compared_with_each_other(recorder: Recorder) -> None:
    post(recorder, "Iallreduce", Cell(0, 8), Cell(0, 8, writes=True))
    assert told(recorder) == []


def test_memory_that_has_changed_is_told_when_the_request_completes(recorder: Recorder) -> None:
    cell = Cell(0, 8)
    memory = post(recorder, "Isend", cell)
    cell.is_written = True
    assert told(recorder) == []
    recorder.buffers.end(memory)
    recorder.buffers.end(memory)
    assert told(recorder) == [("Isend", "changed", "")]
    assert remarks(recorder)[0].count == 1


def test_what_overlapped_is_not_told_again_because_it_changed(recorder: Recorder) -> None:
    cell = Cell(0, 8)
    memory = post(recorder, "Isend", cell)
    post(recorder, "Irecv", Cell(0, 8, writes=True))
    cell.is_written = True
    recorder.buffers.end(memory)
    assert told(recorder) == [("Irecv", "overlaps", "Isend")]


@pytest.mark.parametrize(
    ("name", "begin", "more", "expected"),
    [
        ("Send", 0, {"peer": 1}, True),
        ("Send", 8, {"peer": 1}, False),
        ("Send", 0, {"peer": NOBODY}, False),  # it reads nothing
        ("Sendrecv", 4, {"peer": 1, "receives": (1, 0, 0, 8, 0)}, True),
        ("Sendrecv", 4, {"peer": 1, "receives": (NOBODY, 0, 0, 8, 0)}, False),
        ("Isend", 0, {"peer": 1, "flags": NONBLOCKING}, False),  # that was compared when it was posted
    ],
)
def test_a_blocking_call_uses_what_a_request_writes_to(
    recorder: Recorder, name: str, begin: int, more: dict[str, Any], expected: bool
) -> None:
    memory = post(recorder, "Irecv", Cell(0, 8, writes=True))
    call(recorder, name, begin, 8, **more)
    recorder.buffers.end(memory)
    assert told(recorder) == ([(name, "used", "Irecv")] if expected else [])


def test_a_call_whose_arguments_were_refused_is_not_taken_for_the_next_one(recorder: Recorder) -> None:
    memory = post(recorder, "Irecv", Cell(0, 8, writes=True))
    recorder.buffers.note_use(0, 8)
    recorder.begin_message(0, BY_NAME["Send"].code, num_bytes=24, peer=1, depth=1)
    recorder.buffers.end(memory)
    assert told(recorder) == []


def test_blocking_calls_are_looked_at_only_while_a_request_writes(recorder: Recorder) -> None:
    switched: list[bool] = []
    recorder.buffers.on_writing.append(switched.append)
    reads = post(recorder, "Isend", Cell(0, 8))
    assert switched == []
    first, second = post(recorder, "Irecv", Cell(8, 8, writes=True)), post(recorder, "Irecv", Cell(16, 8, writes=True))
    recorder.buffers.end(first)
    assert switched == [True]
    recorder.buffers.gone.append(second)
    recorder.buffers.end(reads)
    recorder.buffers.note_use(100, 8)
    assert switched == [True, False]


@given(spans=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), max_size=20), at=st.integers(0, 60))
def test_overlaps_are_those_that_plain_comparison_finds(spans: list[tuple[int, int]], at: int) -> None:
    ring: Any = SimpleNamespace(words=[0] * 16)
    slots: Any = SimpleNamespace(origin=lambda request: (0, 0))
    remarks_of_nobody: Any = SimpleNamespace(is_direct=lambda site: False)
    for table in (MemoryTable(), RecorderInUse.memory_table()):
        active = ActiveBuffers(ring, slots, remarks_of_nobody, table)
        cells = [Cell(begin, size, writes=True) for begin, size in spans]
        for cell in cells:
            active.begin(0, (cell,))
        active.note_use(at, 5)
        assert [bool(cell.uses) for cell in cells] == [cell.begin < at + 5 and at < cell.end for cell in cells]


steps = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 20), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("remove"), st.integers(0, 20), st.integers(0, 20), st.booleans()),
    st.tuples(st.just("overlapping"), st.integers(0, 30), st.integers(0, 30), st.booleans()),
)


@given(made=st.lists(steps, max_size=60))
def test_both_tables_hold_the_same(made: list[tuple[str, int, int, bool]]) -> None:
    one, other = MemoryTable(), RecorderInUse.memory_table()
    cells: list[tuple[Cell, int]] = []
    for what, first, second, flag in made:
        if what == "add":
            cell = Cell(first, second)
            number = one.add(cell, first, first + second, flag)
            assert other.add(cell, first, first + second, flag) == number
            cells.append((cell, number))
        elif what == "remove" and first < len(cells):
            cell, number = cells[first]
            number = number if flag else second  # perhaps one that it does not have
            assert one.remove(cell, cell.begin, number) == other.remove(cell, cell.begin, number)
        elif what == "overlapping":
            assert one.overlapping(first, second) == other.overlapping(first, second)
        assert (len(one), one.num_writing) == (len(other), other.num_writing)


def test_the_compiled_table_lets_go_of_what_it_held() -> None:
    table = RecorderInUse.memory_table()
    cell = WeakCell(0, 8)
    gone = weakref.ref(cell)
    number = table.add(cell, 0, 8, True)
    assert table.remove(cell, 0, number)
    table.add(cell, 0, 8, True)
    del cell
    assert gone() is not None
    del table
    assert gone() is None


class Type:
    """A datatype of mpi4py as far as it matters here."""

    def __init__(self, typestr: str, *, is_predefined: bool = True) -> None:
        self.typestr, self.is_predefined = typestr, is_predefined

    def Get_size(self) -> int:  # noqa: N802
        return 8


class View:
    """A view as mpi4py has it: flat, of bytes, with its address."""

    def __init__(self, data: Any) -> None:
        array = data if isinstance(data, np.ndarray) else np.frombuffer(data, dtype=np.uint8)
        self._bytes = np.ndarray((array.nbytes,), np.uint8, array.data if array.flags.c_contiguous else array.T.data)
        self.address, self.nbytes = self._bytes.ctypes.data, array.nbytes

    def __getitem__(self, part: slice) -> np.ndarray[Any, Any]:
        return self._bytes[part]


DOUBLE, COLUMN = Type("f8"), Type("", is_predefined=False)
MPI = SimpleNamespace(
    Comm=type("Comm", (), {"Iallreduce": None}),
    COMM_SELF=None,
    Datatype=Type,
    buffer=View,
    IN_PLACE=object(),
    BOTTOM=object(),
    BYTE=Type("V1"),
    PACKED=Type("V1"),
    CHAR=Type("S1"),
)


def memory_of(spec: Any, *, compares: bool = True) -> UsedMemory | None:
    buffers = Buffers(MPI)
    memory = MemoryReader(MPI, buffers, compares=compares).of(spec, buffers.size(spec), writes=False)
    if memory is not None:
        memory.mark()
        assert not memory.has_changed()
    return memory


@pytest.mark.parametrize("size", [1, 100, 5000, 100_000])
@pytest.mark.parametrize("place", [0, -1])
def test_a_sample_shows_a_change_at_either_end(size: int, place: int) -> None:
    data = np.zeros(size)
    memory = memory_of(data)
    assert memory is not None
    data[place] = 1.0
    assert memory.has_changed()


def test_only_what_is_sent_is_compared() -> None:
    data = np.zeros(10)
    memory = memory_of([data, 4, DOUBLE])
    assert memory is not None
    assert memory.end - memory.begin == 32
    data[4] = 1.0
    assert not memory.has_changed()
    data[3] = 1.0
    assert memory.has_changed()


@pytest.mark.parametrize(
    "spec",
    [
        [np.zeros((4, 4)), 1, COLUMN], [np.zeros(8), (4, 2), DOUBLE], [np.zeros(8), 2, 2, DOUBLE], None, MPI.IN_PLACE,
        np.zeros(0), [np.zeros(2), 4, DOUBLE], SimpleNamespace(__cuda_array_interface__={}),
    ],
    ids=["gaps", "a place", "a place and a count", "nothing", "in place", "empty", "too much", "of a device"],
)  # fmt: skip
def test_what_is_not_known_for_certain_is_left_out(spec: Any) -> None:
    assert memory_of(spec) is None


@pytest.mark.parametrize(
    "data", [np.asfortranarray(np.ones((3, 5))), bytearray(15), b"bytes", np.array(3.0), memoryview(bytearray(4))]
)
def test_arrays_in_the_order_of_columns_and_bytes_are_known(data: Any) -> None:
    assert memory_of(data) is not None


def test_without_samples_nothing_has_changed() -> None:
    data = np.zeros(4)
    memory = memory_of(data, compares=False)
    assert memory is not None
    data[:] = 1.0
    assert not memory.has_changed()


class Held:
    """What a view of mpi4py shows of the array that it holds."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj


def would_be_freed(make: Callable[[], Any]) -> bool:
    """Say it of what a function makes: an assertion would hold it itself."""
    return is_sole_holder(Held(make()))


def test_an_array_that_only_a_view_holds_would_be_freed() -> None:
    kept, parts = np.zeros(6), [np.zeros(4)]
    assert would_be_freed(lambda: np.zeros(3))
    assert would_be_freed(lambda: np.zeros(6).reshape(2, 3)[1])  # of an array that nobody has either
    assert not would_be_freed(lambda: kept)
    assert not would_be_freed(lambda: kept[2:4])
    assert not would_be_freed(lambda: kept.reshape(2, 3)[1])
    assert not would_be_freed(lambda: parts[0])
    assert not would_be_freed(lambda: np.frombuffer(bytearray(8), dtype="f8"))  # who owns the bytes is not known
    assert not would_be_freed(lambda: bytearray(8))
