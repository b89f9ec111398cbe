"""Random jobs that are right give no finding at any moment; one wrong call gives a finding that names its rank."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from tests.guard.simulation import Job

from paceline.guard.shared_memory.layout import STOP_MESSAGE
from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Stop, Waiting
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks

_COLLECTIVES = ["Barrier", "Allreduce", "Bcast", "Reduce", "allgather"]
Ranks = tuple[int, ...]

_WORLD = "mpi-world"


@st.composite
def programs(draw: st.DrawFn, min_ranks: int = 2) -> tuple[list[list[Call]], dict[str, Membership]]:
    """Draw a job as a global list of collectives and messages, which cannot block each other, dealt to the ranks."""
    world_size = draw(st.integers(min_ranks, 7))
    communicators = {_WORLD: Membership(name="WORLD", ranks=tuple(range(world_size)))}
    if draw(st.booleans()):
        members = draw(st.sets(st.integers(0, world_size - 1), min_size=min(3, world_size)))
        communicators["mpi-part"] = Membership(name="Split", ranks=tuple(sorted(members)))
    ranks: list[list[Call]] = [[] for _ in range(world_size)]
    for line in range(draw(st.integers(1, 15))):
        if draw(st.integers(0, 3)):
            _add_collective(draw, ranks, communicators, line)
        else:
            _add_message(draw, ranks, line)
    return ranks, communicators


def _add_collective(draw: st.DrawFn, ranks: list[list[Call]], communicators: dict[str, Membership], line: int) -> None:
    name = draw(st.sampled_from(sorted(communicators)))
    operation = draw(st.sampled_from(_COLLECTIVES))
    rooted = operation in ("Bcast", "Reduce")
    call = Call(
        operation=operation,
        communicator=name,
        site=f"job.py:{line}",
        root=draw(st.integers(0, len(communicators[name].ranks) - 1)) if rooted else -1,
        reduction="SUM" if operation in ("Allreduce", "Reduce") else "none",
        dtype="any" if operation in ("Barrier", "allgather") else "f8",
        num_bytes=-1 if operation in ("Barrier", "allgather") else 64,
    )
    for rank in communicators[name].ranks:
        ranks[rank].append(call)


def _add_message(draw: st.DrawFn, ranks: list[list[Call]], line: int) -> None:
    sender = draw(st.integers(0, len(ranks) - 1))
    receiver = draw(st.integers(0, len(ranks) - 2))
    receiver += receiver >= sender
    tag = draw(st.integers(0, 2))
    common = {"communicator": _WORLD, "tag": tag}
    ranks[sender].append(Call(operation="Send", peer=receiver, site=f"job.py:{line}", **common))  # type: ignore[arg-type]
    ranks[receiver].append(Call(operation="Recv", peer=sender, site=f"job.py:{line}", **common))  # type: ignore[arg-type]


def _judge(job: Job) -> Finding | None:
    inspection = Inspection(job.snapshot())
    return find_certain(inspection) or find_stuck(inspection, cautious=False)


def _run(job: Job, data: DataObject, *, look_every: int) -> Finding | None:
    """Move ranks in a random order until nothing moves; look now and then, and at the end."""
    chooser = data.draw(st.randoms(use_true_random=False))
    moves = 0
    while ready := [rank for rank in range(len(job.ranks)) if job.can_move(rank)]:
        job.move(chooser.choice(ready))
        moves += 1
        if moves % look_every == 0 and (finding := _judge(job)) is not None:
            return finding
    return _judge(job)


@settings(max_examples=150)
@given(programs(), st.booleans(), st.data())
def test_a_correct_job_gives_no_finding_at_any_moment(
    drawn: tuple[list[list[Call]], dict[str, Membership]], buffers: bool, data: DataObject
) -> None:
    ranks, communicators = drawn
    job = Job(ranks, communicators, buffers=buffers, ends={})
    assert _run(job, data, look_every=5) is None
    assert all(rank.ended for rank in job.ranks), "the simulated job is not correct"


def mutate(data: DataObject, call: Call, num_ranks: int) -> list[Call]:
    """Return what a rank does instead of one collective."""
    extra = replace(call, operation="Scan", root=-1, reduction="MAX", site="job.py:99")
    changed: list[list[Call]] = [[], [extra, call], [extra]]
    if call.traits.rooted and num_ranks > 1:
        changed.append([replace(call, root=(call.root + 1) % num_ranks)])
    if call.num_bytes >= 0:
        changed += [[replace(call, num_bytes=72)], [replace(call, dtype="f4")]]
    if call.reduction == "SUM":
        changed.append([replace(call, reduction="PROD")])
    return data.draw(st.sampled_from(changed))


@settings(max_examples=150)
@given(programs(min_ranks=3), st.booleans(), st.data())
def test_one_wrong_collective_gives_a_finding_that_names_its_rank(
    drawn: tuple[list[list[Call]], dict[str, Membership]], buffers: bool, data: DataObject
) -> None:
    ranks, communicators = drawn
    places = [
        (rank, at)
        for rank, calls in enumerate(ranks)
        for at, call in enumerate(calls)
        if call.is_collective and len(communicators[call.communicator].ranks) > 2
    ]
    if not places:
        return
    guilty, at = data.draw(st.sampled_from(places))
    call = ranks[guilty][at]
    ranks[guilty][at : at + 1] = mutate(data, call, len(communicators[call.communicator].ranks))
    finding = _run(Job(ranks, communicators, buffers=buffers, ends={}), data, look_every=1)
    assert finding is not None
    assert guilty in finding.ranks, finding


@settings(max_examples=150)
@given(programs(), st.booleans(), st.data())
def test_a_rank_that_ends_early_is_named(
    drawn: tuple[list[list[Call]], dict[str, Membership]], buffers: bool, data: DataObject
) -> None:
    ranks, communicators = drawn
    last = [next((at for at, call in reversed(list(enumerate(calls))) if call.is_collective), None) for calls in ranks]
    choices: list[int | None] = [rank for rank, at in enumerate(last) if at is not None]
    guilty = data.draw(st.sampled_from(choices or [None]))
    if guilty is None or len(communicators[ranks[guilty][last[guilty] or 0].communicator].ranks) < 2:
        return
    del ranks[guilty][last[guilty] or 0 :]
    job = Job(ranks, communicators, buffers=buffers, ends={})
    finding = _run(job, data, look_every=3)
    if finding is None:  # nobody had to wait for it, as at the root of a broadcast: an absence alone is no finding
        assert all(rank.ended for rank in job.ranks)
        return
    assert finding.kind == "peer-gone"
    assert guilty in finding.ranks


@settings(max_examples=100)
@given(st.integers(2, 7), st.integers(1, 5), st.data())
def test_a_message_with_a_wrong_tag_is_found(world_size: int, num_steps: int, data: DataObject) -> None:
    communicators = {_WORLD: Membership(name="WORLD", ranks=tuple(range(world_size)))}
    step = [
        [
            Call(operation="Send", communicator=_WORLD, peer=(rank + 1) % world_size, tag=1, site="job.py:1"),
            Call(operation="Recv", communicator=_WORLD, peer=(rank - 1) % world_size, tag=1, site="job.py:2"),
        ]
        for rank in range(world_size)
    ]
    ranks = [step[rank] * num_steps for rank in range(world_size)]
    guilty, at = data.draw(st.integers(0, world_size - 1)), 2 * data.draw(st.integers(0, num_steps - 1))
    ranks[guilty][at] = replace(ranks[guilty][at], tag=2)
    finding = _run(Job(ranks, communicators, buffers=True, ends={}), data, look_every=1000)
    assert finding is not None
    assert guilty in finding.ranks
    assert (finding.kind, finding.field) == ("message", "tag")


def _waiting(rank: int, call: Call, position: int) -> RankState:
    return RankState(
        rank=rank, threads=(Waiting(call=call),), positions={_WORLD: position}, history=(call,)
    )  # fmt: skip


def test_ten_thousand_ranks_of_which_one_calls_something_else() -> None:
    world_size, odd = 10_000, 7_777
    communicators = {_WORLD: Membership(name="WORLD", ranks=tuple(range(world_size)))}
    barrier = Call(operation="Barrier", communicator=_WORLD, sequence=5, site="train.py:38")
    other = Call(operation="Reduce", communicator=_WORLD, sequence=5, root=0, site="train.py:46")
    ranks = [_waiting(rank, other if rank == odd else barrier, 5) for rank in range(world_size)]
    finding = find_certain(Inspection(Snapshot(ranks=ranks, communicators=communicators)))
    assert finding is not None
    assert finding.ranks == (odd,)
    assert [group.ranks for group in finding.groups][1] == (odd,)


def test_ten_thousand_ranks_in_a_ring_of_receives_can_never_move() -> None:
    world_size = 10_000
    communicators = {_WORLD: Membership(name="WORLD", ranks=tuple(range(world_size)))}
    ranks = []
    for rank in range(world_size):
        call = Call(operation="Recv", communicator=_WORLD, peer=(rank + 1) % world_size, tag=0, site="ring.py:5")
        ranks.append(_waiting(rank, call, 0))
    assert len(stuck_ranks(Snapshot(ranks=ranks, communicators=communicators), cautious=True)) == world_size
    running = replace(ranks[123], threads=(None,))
    ranks[123] = running
    assert not stuck_ranks(Snapshot(ranks=ranks, communicators=communicators), cautious=True)


@pytest.mark.parametrize(
    ("in_send", "in_barrier", "odd"),
    [((1, 2), (0, 3), (0,)), ((1,), (0, 2, 3), (1,)), ((1, 2, 3), (0,), (0,)), ((1,), (0,), (0, 1))],
)
def test_messages_to_a_rank_that_receives_no_more(in_send: Ranks, in_barrier: Ranks, odd: Ranks) -> None:
    world_size = len(in_send) + len(in_barrier)
    communicators = {_WORLD: Membership(name="WORLD", ranks=tuple(range(world_size)))}
    send = Call(operation="Ssend", communicator=_WORLD, peer=0, tag=0, message_number=1, site="job.py:4")
    barrier = Call(operation="Barrier", communicator=_WORLD, sequence=1, site="job.py:5")
    ranks = [_waiting(rank, *((send, 0) if rank in in_send else (barrier, 1))) for rank in range(world_size)]
    finding = find_stuck(Inspection(Snapshot(ranks=ranks, communicators=communicators)), cautious=True)
    assert finding is not None
    assert (finding.kind, finding.cause, finding.ranks) == ("deadlock", "send-without-receive", odd)
    assert "to rank 0 at job.py:4" in finding.summary
    assert "in Barrier on WORLD at job.py:5" in finding.summary


@pytest.mark.parametrize(
    ("partner", "by_peer", "found"),
    [
        (End(kind=EndKind.EXITED, detail="os._exit(0)", site="job.py:3", exit_code=0, at_ns=5), True, (1,)),
        (End(kind=EndKind.EXITED, detail="os._exit(0)", site="job.py:3", exit_code=0, at_ns=5), False, None),
        (End(kind=EndKind.EXITED, exit_code=0, at_ns=20), True, None),  # it went later, so it was not why
        (None, True, None),
    ],
)
def test_a_rank_that_died_of_a_message_tells_of_the_partner_before_the_job_is_over(
    partner: End | None, by_peer: bool, found: Ranks | None
) -> None:
    communicators = {_WORLD: Membership(name="WORLD", ranks=(0, 1, 2))}
    receive = Call(operation="recv", communicator=_WORLD, peer=1, tag=0, number=4, site="job.py:8")
    died = End(kind=EndKind.RAISED, detail="RuntimeError", at_ns=10, failed_call=4, by_peer=by_peer)
    ranks = [RankState(rank=0, end=died, history=(receive,)), RankState(rank=1, end=partner), RankState(rank=2)]
    finding = find_certain(Inspection(Snapshot(ranks=ranks, communicators=communicators)))
    assert (finding.ranks if finding is not None else None) == found
    if finding is not None:
        assert (finding.kind, finding.cause) == ("peer-gone", "early-exit")


@pytest.mark.parametrize(
    ("not_known", "found"),
    [({}, True), ({"communicators_known": False}, False), ({"forgotten": frozenset({"mpi-part"})}, False)],
)
@pytest.mark.parametrize("end", [None, End(kind=EndKind.EXITED, exit_code=0)])
def test_a_rank_that_could_not_tell_of_a_communicator_may_have_come(
    not_known: dict[str, Any], found: bool, end: End | None
) -> None:
    communicators = {name: Membership(name=name, ranks=(0, 1, 2)) for name in (_WORLD, "mpi-part")}
    part = Call(operation="Barrier", communicator="mpi-part", sequence=1, site="job.py:4")
    world = Call(operation="Barrier", communicator=_WORLD, sequence=1, site="job.py:5")
    there = RankState(rank=0, threads=(Waiting(call=part),), positions={"mpi-part": 1}, history=(part,))
    unknown = replace(_waiting(1, world, 1), end=end, **not_known)
    inspection = Inspection(
        Snapshot(ranks=[there, unknown, replace(there, rank=2)], communicators=communicators)
    )  # fmt: skip
    assert bool(stuck_ranks(inspection.snapshot, cautious=True)) is found
    assert (find_stuck(inspection, cautious=True) is not None) is found
    assert (find_certain(inspection) is not None) is (found and end is not None)
    # nor is it taken for one that waits there
    runs = replace(unknown, positions={}, threads=(None,), history=())
    gone = replace(inspection.snapshot, ranks=[RankState(rank=0, end=_EXIT), runs, RankState(rank=2)])
    assert find_certain(Inspection(gone)) is None


_EXIT = End(kind=EndKind.EXITED, exit_code=0)


@pytest.mark.parametrize(
    ("ends", "found"),
    [
        ((_EXIT, _EXIT), False),
        ((_EXIT, End(kind=EndKind.EXITED)), False),  # its exit code is not known
        ((_EXIT, End(kind=EndKind.EXITED, exit_code=1)), False),
        ((_EXIT, End(kind=EndKind.RAISED)), False),
        ((None, _EXIT), True),
    ],
)
def test_a_rank_that_has_ended_misses_nobody(ends: tuple[End | None, End], found: bool) -> None:
    bcast = Call(operation="Bcast", communicator=_WORLD, sequence=1, root=0, site="job.py:4", left_ns=5)
    ranks = [
        RankState(rank=0, end=ends[0], positions={_WORLD: 1}, history=(bcast,)), RankState(rank=1, end=ends[1])
    ]  # fmt: skip
    snapshot = Snapshot(ranks=ranks, communicators={_WORLD: Membership(name="WORLD", ranks=(0, 1))})
    assert (find_certain(Inspection(snapshot)) is not None) is found


@pytest.mark.parametrize("empty", ["f8", "i4"])
def test_no_elements_have_no_type(empty: str) -> None:
    def bcast(dtype: str, num_bytes: int) -> Call:
        return Call(operation="Bcast", communicator=_WORLD, sequence=1, root=0, dtype=dtype, num_bytes=num_bytes)

    communicators = {_WORLD: Membership(name="WORLD", ranks=(0, 1))}
    for num_bytes, found in ((0, False), (8, True)):
        ranks = [_waiting(0, bcast("i8", num_bytes), 1), _waiting(1, bcast(empty, num_bytes), 1)]
        finding = find_certain(Inspection(Snapshot(ranks=ranks, communicators=communicators)))
        assert (finding is not None) is found
    for num_bytes, found in ((0, False), (8, True)):
        send = Call(operation="Send", communicator=_WORLD, peer=1, tag=0, dtype=empty, num_bytes=num_bytes)
        receive = Call(operation="Recv", communicator=_WORLD, peer=0, tag=0, dtype="i8", num_bytes=64)
        stopped = RankState(
            rank=0, stop=Stop(call=send, reason=STOP_MESSAGE, peer=1), threads=(None,), history=(send,)
        )  # fmt: skip
        snapshot = Snapshot(ranks=[stopped, _waiting(1, receive, 0)], communicators=communicators)
        assert (find_certain(Inspection(snapshot)) is not None) is found
