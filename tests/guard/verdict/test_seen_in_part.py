"""A job of which only a part is seen, as by one of its machines: what is certain is told, and no innocent is named."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from tests.guard.simulation import Job
from tests.guard.test_judgement import mutate, programs
from tests.guard.verdict.simulated import SPLIT, WORLD, collective, communicators, message

from paceline.guard.verdict.diagnose import find_certain, find_first_failure, find_stuck
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting

_UNTOLD = "so who is out of line cannot be told"
_BARRIER, _REDUCE = collective("Barrier", 4, sequence=1), collective("Allreduce", 9, sequence=1)
_RAISED = End(kind=EndKind.RAISED, detail="ValueError: no", site="train.py:3", at_ns=5)
_KILLED = End(kind=EndKind.KILLED, detail="SIGKILL", signal=9, at_ns=5)


def _waits(rank: int, call: Call) -> RankState:
    positions = {call.communicator: call.sequence} if call.is_collective else {}
    return RankState(rank=rank, threads=(Waiting(call=call),), positions=positions, history=(call,))


def _ended(rank: int, end: End, inside: Call | None = None) -> RankState:
    return RankState(rank=rank, end=end, threads=(Waiting(call=inside) if inside is not None else None,))


def _judge(*ranks: RankState | None, split: tuple[int, ...] = (), starting: tuple[int, ...] = ()) -> Finding | None:
    job = Snapshot(ranks=ranks, communicators=communicators(len(ranks), split), starting=frozenset(starting))
    return _find(Inspection(job))


def _find(inspection: Inspection) -> Finding | None:
    return find_certain(inspection) or find_stuck(inspection, cautious=False)


def test_ranks_that_call_differently_are_all_named_if_members_are_not_seen() -> None:
    finding = _judge(None, None, _waits(2, _REDUCE), _waits(3, _BARRIER), _waits(4, _BARRIER))
    assert finding is not None
    assert (finding.kind, finding.ranks) == ("mismatch", (2, 3, 4))
    assert finding.summary == (
        "ranks 2-4 do not fit together at call 1 on WORLD, with different calls: ranks 3-4 call Barrier at train.py:4, "
        f"rank 2 calls Allreduce at train.py:9; ranks 0-1 are not seen from here, {_UNTOLD}"
    )
    assert ((0, 1), "not seen from here") in [(group.ranks, group.detail) for group in finding.groups]


def test_the_odd_one_is_named_where_all_members_of_the_communicator_are_seen() -> None:
    calls = [replace(call, communicator=SPLIT) for call in (_REDUCE, _BARRIER, _BARRIER)]
    finding = _judge(None, None, *map(_waits, (2, 3, 4), calls), split=(2, 3, 4))
    assert finding is not None
    assert finding.ranks == (2,)


def test_a_rank_that_starts_here_is_seen() -> None:
    ranks = (_waits(0, _BARRIER), _waits(1, _BARRIER), _waits(2, _REDUCE), None)
    assert (odd := _judge(*ranks, starting=(3,))) is not None
    assert odd.ranks == (2,)
    assert (untold := _judge(*ranks)) is not None
    assert untold.ranks == (0, 1, 2)


@pytest.mark.parametrize(
    ("end", "is_told"),
    [
        (_RAISED, True),  # nobody else makes a rank raise outside of a call
        (replace(_RAISED, by_peer=True), False),
        (replace(_RAISED, failed_call=0), False),
        (_KILLED, False),  # as a launcher kills, perhaps for a rank that is not seen
        (replace(_KILLED, signal=11), True),
        (End(kind=EndKind.EXITED, exit_code=1, at_ns=5), False),
    ],
)
def test_an_ended_rank_is_named_only_if_no_rank_out_of_sight_can_be_why(end: End, is_told: bool) -> None:
    assert (_judge(_waits(0, _BARRIER), _ended(1, end), None) is not None) is is_told
    assert _judge(_waits(0, _BARRIER), _ended(1, end), None, starting=(2,)) is not None


def test_a_crash_inside_a_call_may_be_the_answer_to_a_lost_peer() -> None:
    crash = replace(_KILLED, signal=6)
    assert _judge(_waits(0, _BARRIER), _ended(1, crash, _REDUCE), None) is None


def test_a_rank_that_exits_is_named_together_with_those_who_wait_for_it() -> None:
    exited = End(kind=EndKind.EXITED, exit_code=0, detail="sys.exit(0)", site="train.py:7", at_ns=5)
    finding = _judge(_waits(0, _BARRIER), _ended(1, exited), None)
    assert finding is not None
    assert finding.ranks == (0, 1)
    assert finding.summary == (
        "rank 1 ended (sys.exit(0) at train.py:7); rank 0 waits for it in Barrier at train.py:4; rank 2 is not seen "
        f"from here, {_UNTOLD}"
    )


def test_ranks_that_wait_for_each_other_are_told_and_none_of_them_is_odd() -> None:
    receives = [message("Recv", 5, peer=1), message("Recv", 5, peer=0)]
    finding = _judge(*map(_waits, (0, 1), receives), None)
    assert finding is not None
    assert (finding.kind, finding.ranks, finding.cause) == ("deadlock", (0, 1), "receive-receive")
    assert _UNTOLD in finding.summary


def test_nobody_is_late_for_those_who_cannot_see_all() -> None:
    late = replace(_RAISED, timed_out=True, failed_call=0)
    states = [replace(_ended(0, late), history=(_BARRIER,), positions={WORLD: 1}), RankState(rank=1), None]
    assert _judge(*states) is None


def test_after_the_job_nobody_is_named_who_may_have_been_ended_because_of_others() -> None:
    def first_failure(*ranks: RankState | None) -> Finding | None:
        return find_first_failure(Inspection(Snapshot(ranks=ranks, communicators=communicators(len(ranks)))))

    killed = _ended(1, replace(_KILLED, at_ns=9), _BARRIER)
    assert first_failure(_ended(0, _KILLED, _BARRIER), killed, None) is None
    assert (
        first_failure(_ended(0, _RAISED), _ended(1, replace(_RAISED, at_ns=6)), None) is None
    )  # all seen failed alike
    finding = first_failure(_ended(0, _RAISED), killed, None)
    assert finding is not None
    assert finding.ranks == (0,)


@settings(max_examples=200)
@given(programs(min_ranks=3), st.booleans(), st.data())
def test_no_innocent_rank_is_accused_whichever_ranks_are_hidden(
    drawn: tuple[list[list[Call]], dict[str, Membership]], buffers: bool, data: DataObject
) -> None:
    ranks, members = drawn
    places = [(rank, at) for rank, calls in enumerate(ranks) for at, call in enumerate(calls) if call.is_collective]
    if not places:
        return
    guilty, at = data.draw(st.sampled_from(places))
    ranks[guilty][at : at + 1] = mutate(data, ranks[guilty][at], len(members[ranks[guilty][at].communicator].ranks))
    hidden = data.draw(st.sets(st.integers(0, len(ranks) - 1), min_size=1, max_size=len(ranks) - 1))
    job = Job(ranks, members, buffers=buffers, ends={})
    chooser = data.draw(st.randoms(use_true_random=False))
    while ready := [rank for rank in range(len(ranks)) if job.can_move(rank)]:
        job.move(chooser.choice(ready))
        _check(_find(_seen(job, hidden)), guilty)
    _check(_find(_seen(job, hidden)), guilty)


def _seen(job: Job, hidden: Collection[int]) -> Inspection:
    whole = job.snapshot()
    states: Sequence[RankState | None] = [None if rank in hidden else state for rank, state in enumerate(whole.ranks)]
    return Inspection(replace(whole, ranks=states))


def _check(finding: Finding | None, guilty: int) -> None:
    assert finding is None or guilty in finding.ranks or _UNTOLD in finding.summary, finding
