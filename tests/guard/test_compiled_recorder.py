"""The compiled recorder writes the same bytes as the one in Python, refuses the same, and keeps no memory."""

from __future__ import annotations

import gc
import os
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.compiled_recorder import COMPILED, IN_PYTHON, RecorderInUse, expected_layout
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import Board, board_bytes, pack_call, pack_size
from paceline.guard.shared_memory.operations import BY_NAME, UNKNOWN_REDUCTION
from paceline.guard.shared_memory.record_fields import OFFSETS, RECORD_BYTES, WORD

BARRIER = BY_NAME["Barrier"].code
KINDS: list[type[Recorder]] = [Recorder, RecorderInUse]
_TIMES = (layout.JOINED, layout.ENDED_AT)


def shown(ring: Path) -> bytes:
    """Return a ring with all times but 0 replaced by 1: two runs cannot have the same."""
    data = bytearray(ring.read_bytes())
    words = memoryview(data).cast("Q")
    places = list(_TIMES)
    for begin, num in ((layout.RECORDS_AT, layout.NUM_SLOTS), (layout.REQUESTS_AT, layout.MAX_REQUESTS)):
        for record in range(num):
            places += [(begin + record * RECORD_BYTES + OFFSETS[field]) // WORD for field in ("entered_ns", "left_ns")]
    for place in places:
        words[place] = min(words[place], 1)
    words.release()
    return bytes(data)


class Twins:
    """Two recorders, one of each kind, that are told the same."""

    def __init__(self, folder: Path, num_members: int = 3) -> None:
        self.folders = [folder / kind.__name__ for kind in KINDS]
        for own in self.folders:
            own.mkdir()
        self.recorders = [
            kind(own, "world.0.0", rank=0, world_size=num_members)
            for kind, own in zip(KINDS, self.folders, strict=True)
        ]
        self.stops: list[list[tuple[int, ...]]] = [[], []]
        for recorder, stops in zip(self.recorders, self.stops, strict=True):
            recorder.stop = lambda *told, stops=stops: stops.append(told)  # type: ignore[method-assign]
            recorder.messages._stop = recorder.stop
        self.worlds = [self._world(recorder, num_members) for recorder in self.recorders]

    def _world(self, recorder: Recorder, num_members: int) -> Communicator:
        made = recorder.communicator("mpi-world", "WORLD", range(num_members), 0)
        assert made is not None
        return made

    def tell(self, action: Callable[..., Any]) -> Any:
        """Do the same with both; return what both have returned."""
        one, other = (action(*pair) for pair in zip(self.recorders, self.worlds, strict=True))
        assert one == other
        return one

    def check(self) -> None:
        for name in sorted(path.name for path in self.folders[0].iterdir()):
            one, other = (folder / name for folder in self.folders)
            read = shown if name.startswith("ring.") else Path.read_bytes
            assert read(one) == read(other), name
        assert self.stops[0] == self.stops[1]


small, wide = st.integers(0, 4), st.integers(-(2**62), 2**62)
codes, halves = st.integers(0, 511), st.integers(-(2**31), 2**31 - 1)
collectives = st.fixed_dictionaries(
    {"operation": codes, "root": halves, "reduction": st.integers(0, 18), "dtype": st.integers(0, 22)},
    optional={
        "num_bytes": st.integers(-1, 2**60), "count": wide, "flags": st.integers(0, 31),
        "request": st.integers(0, 1023), "members_hash": st.integers(0, 2**48),
    },
)  # fmt: skip
messages = st.fixed_dictionaries(
    {"operation": codes},
    optional={
        "peer": halves, "tag": halves, "message_number": wide, "dtype": st.integers(0, 22), "num_bytes": wide,
        "count": wide, "flags": st.integers(0, 31), "request": st.integers(0, 1023), "num_requests": halves,
        "members_hash": wide, "receives": st.tuples(halves, halves, st.integers(0, 22), wide, wide),
    },
)  # fmt: skip
calls = st.one_of(
    st.tuples(st.just("collective"), collectives), st.tuples(st.just("message"), messages),
    st.tuples(st.sampled_from(["block", "unblock", "leave"]), small), st.tuples(st.just("wait"), st.lists(small)),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(calls, max_size=30), st.integers(1, 4))
def test_random_calls_leave_the_same_bytes(made: list[tuple[str, Any]], num_members: int) -> None:
    with tempfile.TemporaryDirectory(prefix="paceline-twins-") as folder:
        twins = Twins(Path(folder), num_members)
        for kind, told in made:
            if kind == "collective":
                twins.tell(lambda recorder, world, told=told: recorder.begin_collective(world, **told, depth=2))
            elif kind == "message":
                twins.tell(lambda recorder, world, told=told: recorder.begin_message(world.index, **told, depth=2))
            elif kind == "wait":
                twins.tell(lambda recorder, world, told=told: recorder.begin_wait(BARRIER, told, any_of=True, depth=3))
            else:
                twins.tell(lambda recorder, world, kind=kind, told=told: getattr(recorder, kind)(told))
        twins.check()


def test_a_ring_that_goes_round_is_the_same(tmp_path: Path) -> None:
    twins = Twins(tmp_path, 2)
    for number in range(layout.NUM_SLOTS + 100):
        assert twins.tell(lambda recorder, world: recorder.begin_collective(world, BARRIER, depth=1)) == number
        twins.tell(lambda recorder, world, number=number: recorder.unblock(number))
    twins.check()


@pytest.mark.parametrize("differing", ["operation", "root", "reduction", "dtype", "num_bytes"])
def test_a_member_that_calls_differently_is_seen_by_both(tmp_path: Path, differing: str) -> None:
    twins = Twins(tmp_path, 3)
    same = {"operation": 5, "root": 1, "reduction": 1, "dtype": 13, "num_bytes": 64}
    for folder, kind in zip(twins.folders, KINDS, strict=True):
        other = kind(folder, "world.0.1", rank=1, world_size=3)
        world = other.communicator("mpi-world", "WORLD", range(3), 1)
        assert world is not None
        other.begin_collective(world, **same)
        other.begin_collective(world, **same)
    twins.tell(lambda recorder, world: recorder.begin_collective(world, **same))
    assert twins.stops == [[], []]
    twins.tell(lambda recorder, world: recorder.begin_collective(world, **{**same, differing: 2}))
    twins.check()
    assert twins.stops[0] == [(1, layout.STOP_COLLECTIVE, 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "told",
    [{"root": 1 << 31}, {"dtype": 1 << 16}, {"dtype": -1}, {"flags": "x"}, {"nothing_like_it": 1}, {"depth": 900}],
)
def test_what_a_record_has_no_room_for_is_refused(kind: type[Recorder], told: dict[str, Any], tmp_path: Path) -> None:
    recorder = kind(tmp_path, "world.0.0", rank=0, world_size=2)
    world = recorder.communicator("mpi-world", "WORLD", range(2), 0)
    with pytest.raises((OverflowError, struct.error, TypeError, ValueError)):
        recorder.begin_collective(world, BARRIER, **told)  # type: ignore[arg-type]
    recorder.begin_collective(world, BARRIER)  # type: ignore[arg-type]


def test_the_compiled_part_has_the_layout_of_the_python_part() -> None:
    from paceline.compiled import extension

    assert expected_layout() == extension.RING_LAYOUT


def test_python_does_without_the_compiled_part_if_told_so() -> None:
    program = "from paceline.guard.rank.compiled_recorder import RecorderInUse; print(RecorderInUse.__name__)"
    for told, name in (({}, "CompiledRecorder"), ({IN_PYTHON: "1"}, "Recorder")):
        environment = {key: value for key, value in os.environ.items() if key != IN_PYTHON} | told
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout == f"{name}\n"


def test_both_compare_sizes_where_one_reduction_is_not_known(tmp_path: Path) -> None:
    twins = Twins(tmp_path, num_members=2)
    others = [Board(next(folder.glob("board.*mpi-world")), 1, 2) for folder in twins.folders]
    code = BY_NAME["Allreduce"].code
    for sequence, num_bytes in ((1, 8), (2, 196)):
        for other in others:
            other.meet(sequence, pack_call(code, -1, 1), pack_size(13, 8))
        twins.tell(
            lambda recorder, world, size=num_bytes: recorder.begin_collective(
                world, code, -1, UNKNOWN_REDUCTION, 13, size, size // 8, depth=1
            )
        )
    assert [[told[1:] for told in stops] for stops in twins.stops] == [[(layout.STOP_COLLECTIVE, 1)]] * 2


@pytest.mark.parametrize("roots", [(40_000, 40_000 - (1 << 15)), (32_766, 32_767), (40_000, 40_000)])
def test_both_tell_roots_of_a_large_communicator_apart(tmp_path: Path, roots: tuple[int, int]) -> None:
    twins = Twins(tmp_path, num_members=50_000)
    others = [Board(next(folder.glob("board.*mpi-world")), 41_000, 50_000) for folder in twins.folders]
    code = BY_NAME["Bcast"].code
    for sequence in (1, 1 + layout.BOARD_ROWS):  # in one row of the board
        for other in others:
            other.meet(sequence, pack_call(code, roots[0], 0), pack_size(13, 8))
    for _ in range(layout.BOARD_ROWS):
        twins.tell(lambda recorder, world: recorder.begin_collective(world, code, roots[1], 0, 13, 8, 1, depth=1))
    assert [len(stops) for stops in twins.stops] == [0, 0]  # the other one is a round further
    twins.tell(lambda recorder, world: recorder.begin_collective(world, code, roots[1], 0, 13, 8, 1, depth=1))
    expected = [] if roots[0] == roots[1] else [(layout.STOP_COLLECTIVE, 41_000)]
    assert [[told[1:] for told in stops] for stops in twins.stops] == [expected] * 2


@pytest.mark.parametrize("words", [b"", bytearray(8), bytearray(board_bytes(2) + 8)])
def test_a_board_of_another_size_is_refused(words: Any) -> None:
    with pytest.raises((ValueError, BufferError)):
        COMPILED.BoardMember(0, 0, 2, words)


@pytest.mark.parametrize(
    "numbers",
    [(-1, 0, 2), (layout.MAX_COMMS, 0, 2), (0, 2, 2), (0, -1, 2), (0, 0, 0), (0, 0, 2, None, 2), (0, 0, 2, None, -1)],
)
def test_a_member_that_cannot_be_is_refused(numbers: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="member"):
        COMPILED.BoardMember(*numbers)


def test_a_writer_without_a_ring_refuses_to_write() -> None:
    writer = COMPILED.RecordWriter()
    member = type("Communicator", (), {"board_member": COMPILED.BoardMember(0, 0, 1)})()
    with pytest.raises(ValueError, match="not open"):
        writer.begin_collective(member, BARRIER)
    with pytest.raises(ValueError, match="not open"):
        writer.unblock(0)
    with pytest.raises(ValueError, match="another size"):
        writer.open_ring(bytearray(8), {}, print, None)


def test_a_communicator_of_no_compiled_recorder_is_refused(tmp_path: Path) -> None:
    twins = Twins(tmp_path)
    with pytest.raises(TypeError, match="not one of this recorder"):
        twins.recorders[1].begin_collective(twins.worlds[0], BARRIER)


def test_threads_write_their_own_slots(tmp_path: Path) -> None:
    twins = Twins(tmp_path)
    twins.tell(lambda recorder, world: recorder.begin_collective(world, BARRIER))

    def call() -> None:
        number = twins.tell(lambda recorder, world: recorder.begin_collective(world, BARRIER))
        twins.tell(lambda recorder, world: recorder.unblock(number))
        twins.tell(lambda recorder, world: recorder.begin_collective(world, BARRIER))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    twins.tell(lambda recorder, world: recorder.unblock(0))
    twins.check()


def test_a_recorder_is_collected_with_all_it_holds(tmp_path: Path) -> None:
    recorder = RecorderInUse(tmp_path, "world.0.0", rank=0, world_size=2)
    world = recorder.communicator("mpi-world", "WORLD", range(2), 0)
    assert world is not None
    recorder.begin_collective(world, BARRIER)
    gone = weakref.ref(recorder)
    del recorder, world
    gc.collect()
    assert gone() is None


def test_a_million_calls_leave_the_memory_as_it_was(tmp_path: Path) -> None:
    recorder = RecorderInUse(tmp_path, "world.0.0", rank=0, world_size=2)
    world = recorder.communicator("mpi-world", "WORLD", range(2), 0)
    assert world is not None

    def make_calls(num: int) -> None:
        begin_collective, begin_message, unblock = recorder.begin_collective, recorder.begin_message, recorder.unblock
        for number in range(num):
            unblock(begin_collective(world, BARRIER, num_bytes=number, depth=1))
            unblock(begin_message(0, BARRIER, peer=1, tag=number, num_bytes=number, depth=1))

    make_calls(10_000)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    make_calls(500_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1024  # KiB
