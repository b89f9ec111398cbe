"""Stretches of equal histories are equal, whatever becomes of messages; those of others lead to a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.guard.hosts.stretches.call_sums import RECORD, call_words
from paceline.guard.hosts.stretches.compared_stretches import ComparedStretches, Suspicion, may_be_unknown
from paceline.guard.hosts.stretches.ring_sums import PositionSums, RingSums
from paceline.guard.hosts.stretches.stretch import Stretch, Sums, cut, unpack_sums
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.remarks.withdrawn_calls import withdraw
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME, DTYPES, REDUCTIONS, UNKNOWN_REDUCTION
from paceline.guard.verdict.rules.mismatch import compare
from paceline.guard.verdict.snapshot import Call

_NAMES = ["Allreduce", "Bcast", "Gatherv", "Create", "File.Open", "torch.broadcast"]
_REDUCE = BY_NAME["Allreduce"].code
_COMMUNICATOR = "abc.0.mpi-world"


_FIELDS: dict[str, st.SearchStrategy[object]] = {
    "operation": st.sampled_from(_NAMES),
    "root": st.integers(layout.NOTHING, 2),
    "reduction": st.sampled_from([*REDUCTIONS[:3], REDUCTIONS[UNKNOWN_REDUCTION]]),
    "dtype": st.sampled_from(DTYPES[:3]),
    "num_bytes": st.sampled_from([-1, 0, 4, 8]),
    "members_hash": st.integers(0, 2),
    "site": st.sampled_from(["a.py:1", "b.py:2"]),
    "entered_ns": st.integers(0, 9),
    "count": st.integers(-1, 3),
    "number": st.integers(0, 9),
}


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[Call, Call]:
    """Return two calls at one position that differ in few fields, if any."""
    one = Call(sequence=7, **draw(st.fixed_dictionaries(_FIELDS)))  # type: ignore[arg-type]
    names = draw(st.sets(st.sampled_from(sorted(_FIELDS)), max_size=2))
    return one, replace(one, **{name: draw(_FIELDS[name]) for name in names})  # type: ignore[arg-type]


def _sums(call: Call) -> Sums:
    record = numpy.zeros(1, dtype=RECORD)
    for name in ("sequence", "root", "num_bytes", "members_hash", "entered_ns", "count", "number"):
        record[name] = getattr(call, name)
    record["operation"] = BY_NAME[call.operation].code
    record["dtype"], record["reduction"] = DTYPES.index(call.dtype), REDUCTIONS.index(call.reduction)
    return Sums(*map(int, call_words(record)[0]))


@given(_pairs())
@settings(max_examples=300)
def test_calls_that_differ_have_other_sums_and_other_sums_of_what_is_known_are_of_calls_that_differ(
    pair: tuple[Call, Call],
) -> None:
    one, other = pair
    differ = compare({0: one, 1: other}) is not None
    sums = {_sums(one), _sums(other)}
    assert len(sums) == 2 or not differ
    assert differ or may_be_unknown(sums)


@given(st.integers(0, 1000), st.integers(0, 5000), st.booleans())
def test_a_cut_leaves_nothing_out_but_a_small_part_at_the_end(begin: int, length: int, to_the_end: bool) -> None:
    end = begin + length
    stretches = list(cut(begin, end, to_the_end=to_the_end))
    at = begin
    for stretch in stretches:
        assert stretch.begin == at
        at = stretch.end
    assert at == end if to_the_end else end - length / 2 <= at <= end
    assert at > begin or not length
    assert len(stretches) <= 2 * max(1, length).bit_length()


def test_a_rank_that_goes_on_is_told_of_in_few_stretches() -> None:
    begin, numbers = 0, []
    for end in range(997, 50_000, 997):
        told = list(cut(begin, end))
        begin = told[-1].end
        numbers.append(len(told))
    assert sum(numbers) / len(numbers) < 5


class _Job:
    """Ranks of one communicator, told of by hosts of their own, over a network that loses, repeats and mixes up."""

    def __init__(self, histories: list[list[int]]) -> None:
        self.histories = histories
        self.told = [0] * len(histories)
        self.compared: ComparedStretches[int] = ComparedStretches()
        self.under_way: list[tuple[int, Stretch, Sums]] = []
        self.suspicions: list[Suspicion[int]] = []

    def tell(self, rank: int, end: int, *, to_the_end: bool = False) -> None:
        end = min(end, len(self.histories[rank]))
        for stretch in cut(self.told[rank], max(end, self.told[rank]), to_the_end=to_the_end):
            values = self.histories[rank][stretch.begin : stretch.end]
            mixed = sum((stretch.begin + at + 1) * value for at, value in enumerate(values))
            self.under_way.append((rank, stretch, Sums(0, mixed, 0)))
            self.told[rank] = stretch.end

    def deliver(self, at: int, *, is_lost: bool = False, is_kept: bool = False) -> None:
        if self.under_way:
            at %= len(self.under_way)
            rank, stretch, sums = self.under_way[at] if is_kept else self.under_way.pop(at)
            if not is_lost:
                found = self.compared.take(rank, _COMMUNICATOR, len(self.histories), stretch, [(rank, sums)])
                self.suspicions += found


_ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), st.integers(0, 2), st.integers(1, 40)),
        st.tuples(st.just("deliver"), st.integers(0, 9), st.sampled_from(["once", "lost", "kept"])),
    ),
    max_size=60,
)


def _run(job: _Job, actions: list[tuple[str, int, object]], *, is_lossy: bool) -> None:
    for name, number, more in actions:
        if name == "tell":
            assert isinstance(more, int)
            job.tell(number, job.told[number] + more)
        else:
            job.deliver(number, is_lost=is_lossy and more == "lost", is_kept=more == "kept")


@given(st.lists(st.integers(1, 3), max_size=60), _ACTIONS)
@settings(max_examples=200, deadline=None)
def test_equal_histories_are_never_suspected(history: list[int], actions: list[tuple[str, int, object]]) -> None:
    job = _Job([history] * 3)
    _run(job, actions, is_lossy=True)
    assert job.suspicions == []


@given(st.lists(st.integers(1, 3), min_size=1, max_size=60), _ACTIONS, st.data())
@settings(max_examples=200, deadline=None)
def test_a_difference_is_suspected_where_it_is_if_nothing_is_lost(
    history: list[int], actions: list[tuple[str, int, object]], data: st.DataObject
) -> None:
    place, rank = data.draw(st.integers(0, len(history) - 1)), data.draw(st.integers(0, 2))
    other = [*history[:place], history[place] + 3, *history[place + 1 :]]
    job = _Job([other if number == rank else history for number in range(3)])
    _run(job, actions, is_lossy=False)
    for number in range(3):
        job.tell(number, len(history), to_the_end=True)
    while job.under_way:
        job.deliver(0)
    assert job.suspicions
    for suspicion in job.suspicions:
        assert suspicion.stretch.begin <= place < suspicion.stretch.end
        assert (rank,) in suspicion.alike
        assert not suspicion.is_by_unknown


def test_members_that_are_too_many_are_not_compared() -> None:
    compared: ComparedStretches[int] = ComparedStretches()
    stretch = Stretch(0, 0)
    told = [(rank, Sums(rank, 0, 0)) for rank in range(3)]
    assert compared.take(0, _COMMUNICATOR, 2, stretch, told) == []
    assert len(compared.take(0, _COMMUNICATOR, 2, stretch, told[:2])) == 1


def test_what_is_held_of_hosts_has_a_limit() -> None:
    """Sums of ranks that wait for others which never come, of communicators without end."""
    compared: ComparedStretches[int] = ComparedStretches()
    for number in range(1000):
        compared.take(0, f"abc.0.mpi-{number}", 2, Stretch(0, 0), [(0, Sums(1, 1, 1))])
        compared.take(0, _COMMUNICATOR, 2, Stretch(0, number), [(0, Sums(1, 1, 1))])
    assert len(compared._compared) <= 256
    assert len(compared._compared[_COMMUNICATOR].sums[0]) <= 128


def test_a_host_that_is_forgotten_is_not_compared() -> None:
    compared: ComparedStretches[int] = ComparedStretches()
    compared.take(0, _COMMUNICATOR, 2, Stretch(0, 0), [(0, Sums(1, 1, 1))])
    compared.forget(0)
    assert compared.take(1, _COMMUNICATOR, 2, Stretch(0, 0), [(1, Sums(2, 1, 1))]) == []


def test_sums_travel_as_bytes() -> None:
    sums = Sums(1, (1 << 64) - 1, 3)
    assert unpack_sums(sums.packed()) == sums
    assert sums + Sums(1, 1, 1) == Sums(2, 0, 4)


# from rings


def _rank(folder: Path) -> tuple[Recorder, Communicator, RingReader]:
    recorder = Recorder(folder, "abc.0.0", rank=0, world_size=2)
    world = recorder.communicator("mpi-world", "WORLD", range(2), 0)
    assert world is not None
    return recorder, world, RingReader(folder / "ring.abc.0.0")


def _whole(held: PositionSums) -> Sums:
    assert held.begin is not None
    parts = [held.sums(stretch) for stretch in cut(held.begin, held.end, to_the_end=True)]
    return sum(parts[1:], parts[0])


@given(st.lists(st.tuples(st.sampled_from(["make", "begin", "leave", "refuse", "message", "read"]), st.integers(0, 3))))
@settings(max_examples=60, deadline=None)
def test_whenever_a_ring_is_read_its_sums_are_the_same(actions: list[tuple[str, int]]) -> None:
    """Calls that are not over count later, and refused ones never."""
    with TemporaryDirectory() as folder:
        recorder, world, reader = _rank(Path(folder))
        often, under_way = RingSums(), list[int]()
        for name, number in actions:
            if name == "read":
                often.read(reader, {world.identity})
            elif name == "message":
                recorder.unblock(recorder.begin_message(world.index, BY_NAME["Send"].code, peer=number, depth=1))
            elif name == "leave" and under_way:
                recorder.leave(under_way.pop(number % len(under_way)))
            elif name in ("make", "begin", "refuse"):
                begun = recorder.begin_collective(world, _REDUCE, num_bytes=number, flags=layout.NONBLOCKING, depth=1)
                if name == "refuse":
                    recorder.fail(begun)
                    withdraw(recorder.ring, [world], begun)
                if name == "begin":
                    under_way.append(begun)
                elif name == "make" or number % 2:  # of a request that was refused nobody says that it is over
                    recorder.leave(begun)
        for begun in under_way:
            recorder.leave(begun)
        once = RingSums()
        for sums in (often, once):
            sums.read(reader, {world.identity})
        reader.close()
        if world.identity in once.of:
            held = often.of[world.identity]
            assert once.of[world.identity].end == held.end == recorder.position(world)
            if held.begin == 0:  # otherwise the first call was not over when later ones were
                assert _whole(held) == _whole(once.of[world.identity])


def test_a_ring_that_goes_round_between_two_looks_begins_anew(tmp_path: Path) -> None:
    recorder, world, reader = _rank(tmp_path)
    sums, made = RingSums(), 0
    for num, begin in ((10, 0), (layout.NUM_SLOTS + 500, 10 + 500 + 64), (20, 10 + 500 + 64)):
        for _ in range(num):
            recorder.unblock(recorder.begin_collective(world, _REDUCE, depth=1))
        sums.read(reader, {world.identity})
        made += num
        held = sums.of[world.identity]
        assert (held.begin, held.end) == (begin, made)


def test_a_call_that_stays_open_while_the_ring_goes_round_is_not_compared(tmp_path: Path) -> None:
    recorder, world, reader = _rank(tmp_path)
    sums = RingSums()
    recorder.begin_collective(world, _REDUCE, flags=layout.NONBLOCKING, depth=1)
    for _ in range(5):
        for _ in range(1000):
            recorder.unblock(recorder.begin_collective(world, _REDUCE, depth=1))
        sums.read(reader, {world.identity})
    assert sums.of[world.identity].end == 5001


@pytest.mark.parametrize("num", [1, 3, 300])
def test_what_was_told_is_dropped_and_the_rest_stays(num: int) -> None:
    held = PositionSums()
    held.add(numpy.arange(10), numpy.ones((10, 3), dtype=numpy.uint64))
    held.drop_before(4)
    held.add(numpy.arange(10, 10 + num), numpy.ones((num, 3), dtype=numpy.uint64))
    assert (held.begin, held.end) == (4, 10 + num)
    assert _whole(held) == Sums(6 + num, 6 + num, 6 + num)
