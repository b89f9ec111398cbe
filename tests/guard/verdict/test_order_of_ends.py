"""Who failed first is named, and those that launchers and libraries ended afterwards are not."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
from tests.guard.verdict.simulated import WORLD, collective, communicators, waits

from paceline.guard.shared_memory.layout import NONBLOCKING
from paceline.guard.verdict.diagnose import find_certain, find_first_failure
from paceline.guard.verdict.finding import Cause, Finding, FindingKind, GroupState
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, RankState, Snapshot, Waiting

MS = 1_000_000
BARRIER = collective("Barrier", 8, sequence=1)


def killed(number: int, at_ms: float) -> End:
    """Return the end of a rank that a signal has killed."""
    return End(kind=EndKind.KILLED, detail=f"by {signal.Signals(number).name}", signal=number, at_ns=int(at_ms * MS))


def dead(rank: int, end: End, inside: Call | None = None) -> RankState:
    """Return a rank that has ended, inside a call or outside of all."""
    if inside is None:
        return RankState(rank=rank, end=end, threads=(None,))
    return RankState(
        rank=rank, end=end, threads=(Waiting(call=inside),), positions={WORLD: inside.sequence}, history=(inside,)
    )


def inspection(*ranks: RankState | None) -> Inspection:
    return Inspection(Snapshot(ranks=ranks, communicators=communicators(len(ranks))))


def after_the_job(*ranks: RankState) -> Finding:
    finding = find_certain(inspection(*ranks)) or find_first_failure(inspection(*ranks))
    assert finding is not None
    return finding


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT, signal.SIGTERM, signal.SIGBUS])
def test_a_rank_that_dies_inside_a_collective_waits_for_nobody(number: int) -> None:
    launcher = killed(signal.SIGKILL, 30)
    finding = after_the_job(dead(0, launcher), dead(1, killed(number, 10), BARRIER), dead(2, launcher))
    assert (finding.kind, finding.ranks, finding.cause) == (FindingKind.PEER_GONE, (1,), Cause.KILLED)
    assert finding.summary == (
        f"rank 1 was killed (by {signal.Signals(number).name}) inside Barrier at train.py:8; the other ranks were "
        "ended because of it"
    )
    assert [(group.ranks, group.detail) for group in finding.groups if 1 not in group.ranks] == [((0, 2), "afterwards")]


def test_it_is_named_while_others_still_wait_beside_it() -> None:
    finding = find_certain(
        inspection(waits(0, BARRIER), dead(1, killed(signal.SIGSEGV, 10), BARRIER), RankState(rank=2))
    )
    assert finding is not None
    assert finding.ranks == (1,)
    assert finding.summary == (
        "rank 1 was killed (by SIGSEGV) inside Barrier at train.py:8; rank 0 waits for it in Barrier at train.py:8"
    )


def test_it_is_named_although_the_launcher_has_ended_one_that_others_wait_for_too() -> None:
    finding = find_certain(
        inspection(waits(0, BARRIER), dead(1, killed(signal.SIGSEGV, 10), BARRIER), dead(2, killed(signal.SIGKILL, 40)))
    )
    assert finding is not None
    assert finding.ranks == (1,)


def test_a_signal_to_one_rank_outside_of_all_calls_comes_before_what_the_launcher_does() -> None:
    finding = after_the_job(
        dead(0, killed(signal.SIGTERM, 10)), dead(1, killed(signal.SIGKILL, 25)), dead(2, killed(signal.SIGKILL, 26))
    )
    assert finding.ranks == (0,)


def test_a_crash_is_first_however_late_it_was_noticed() -> None:
    finding = after_the_job(
        dead(0, killed(signal.SIGKILL, 10)), dead(1, killed(signal.SIGSEGV, 11)), dead(2, killed(signal.SIGKILL, 11))
    )
    assert finding.ranks == (1,)


def test_ends_that_cannot_be_told_apart_are_said_to_be_so() -> None:
    failed = End(kind=EndKind.RAISED, detail="RuntimeError: closed by peer", at_ns=60 * MS, by_peer=True)
    ranks = [dead(0, killed(signal.SIGKILL, 10)), dead(1, killed(signal.SIGKILL, 10)), dead(2, failed)]
    finding = find_first_failure(inspection(*ranks))
    assert finding is not None
    assert finding.ranks == (0, 1)
    assert finding.summary == "ranks 0-1 were killed (by SIGKILL); which of them was first, and why, cannot be told"


@pytest.mark.parametrize("is_inside", [True, False])
def test_of_kills_that_one_look_has_found_the_kernel_tells_which_was_first(is_inside: bool) -> None:
    """The launcher may kill the next rank before the judge has looked at the first."""
    inside = BARRIER if is_inside else None
    finding = find_certain(
        inspection(
            waits(0, BARRIER),
            dead(1, killed(signal.SIGKILL, 10), inside),
            dead(2, killed(signal.SIGKILL, 10.000001), BARRIER),
            waits(3, BARRIER),
        )
    )
    assert finding is not None
    assert (finding.kind, finding.ranks, finding.cause) == (FindingKind.PEER_GONE, (1,), Cause.KILLED)


@pytest.mark.parametrize(("first", "by_launcher"), [("SIGTERM", "SIGKILL"), ("SIGKILL", "SIGTERM")])
def test_the_one_that_another_signal_killed_is_first_though_the_kernel_lists_it_later(
    first: str, by_launcher: str
) -> None:
    """A launcher sees its connections close before the kernel lists its end."""
    own, others = signal.Signals[first], signal.Signals[by_launcher]
    finding = after_the_job(
        dead(0, killed(others, 16)), dead(1, killed(others, 17)), dead(2, killed(own, 15), BARRIER),
        dead(3, killed(others, 10)),
    )  # fmt: skip
    assert finding.ranks == (2,)
    assert f"rank 2 was killed (by {first})" in finding.summary


def test_of_two_ranks_that_different_signals_killed_the_first_is_named() -> None:
    """Either may be what the launcher sends."""
    finding = after_the_job(dead(0, killed(signal.SIGTERM, 10)), dead(1, killed(signal.SIGKILL, 20), BARRIER))
    assert finding.ranks == (0,)


def test_a_job_that_is_killed_as_a_whole_has_no_rank_out_of_line() -> None:
    assert find_first_failure(inspection(*(dead(rank, killed(signal.SIGTERM, 10)) for rank in range(3)))) is None


def test_a_library_that_aborts_because_its_peer_is_gone_is_a_victim() -> None:
    finding = after_the_job(
        dead(0, killed(signal.SIGABRT, 100), BARRIER),
        dead(1, End(kind=EndKind.RAISED, detail="ValueError", site="train.py:3", at_ns=10 * MS)),
    )
    assert (finding.ranks, finding.cause) == ((1,), Cause.EXCEPTION)


def test_the_time_limit_of_a_collective_names_those_who_had_not_come() -> None:
    call = collective("torch.all_reduce", 9, sequence=3, number=2)
    gave_up = End(kind=EndKind.RAISED, detail="RuntimeError: timed out", at_ns=10 * MS, failed_call=2, timed_out=True)
    late = [
        RankState(rank=rank, end=killed(signal.SIGTERM, 40), positions={WORLD: 2}, history=(collective("Bcast", 4),))
        for rank in (0, 2)
    ]
    died = RankState(rank=1, end=gave_up, positions={WORLD: 3}, history=(call,))
    finding = after_the_job(late[0], died, late[1])
    assert (finding.kind, finding.cause, finding.ranks) == (FindingKind.DEADLOCK, Cause.TIMEOUT, (0, 2))
    assert finding.summary == (
        "ranks 0, 2 had not come to the all_reduce at train.py:9 when the time limit of rank 1 ran out there; their "
        "last call was Bcast at train.py:4"
    )
    assert [group.state for group in finding.groups if group.ranks == (0, 2)] == [GroupState.KILLED]


def test_ranks_that_all_came_to_their_end_leave_nothing_to_find() -> None:
    done = End(kind=EndKind.EXITED, exit_code=0)
    ranks = [
        RankState(rank=0, end=done, positions={WORLD: 1}, history=(BARRIER,)),
        RankState(rank=1, end=done),
    ]
    assert find_certain(inspection(*ranks)) is None
    assert find_first_failure(inspection(*ranks)) is None


def test_of_ranks_that_died_while_memory_was_short_the_one_that_held_most_is_first() -> None:
    def short(at_ms: float, held: int) -> End:
        return replace(killed(signal.SIGKILL, at_ms), cause=Cause.OUT_OF_MEMORY, memory_bytes=held)

    finding = find_first_failure(inspection(dead(0, short(10, 5)), dead(1, short(11, 900)), dead(2, short(11, 7))))
    assert finding is not None
    assert (finding.ranks, finding.cause) == ((1,), Cause.OUT_OF_MEMORY)
    # looked at too early to see it grow: the others hold as much, and the first that ended is named
    finding = find_first_failure(inspection(dead(0, short(11, 9)), dead(1, short(10, 8)), dead(2, short(11, 7))))
    assert finding is not None
    assert (finding.ranks, finding.cause) == ((1,), Cause.OUT_OF_MEMORY)


def test_a_rank_that_exited_is_named_although_the_launcher_has_killed_the_one_that_waited_for_it() -> None:
    gone = End(kind=EndKind.EXITED, detail="os._exit(0)", site="train.py:5", exit_code=0, at_ns=5 * MS)
    finding = find_certain(inspection(dead(0, killed(signal.SIGKILL, 9), BARRIER), dead(1, gone)))
    assert finding is not None
    assert (finding.ranks, finding.cause) == ((1,), Cause.EARLY_EXIT)
    assert finding.summary.startswith("rank 1 ended at train.py:5 (os._exit(0)); rank 0 waited for it in Barrier")
    later = replace(gone, at_ns=20 * MS)
    assert find_certain(inspection(dead(0, killed(signal.SIGKILL, 9), BARRIER), dead(1, later))) is None


def test_a_rank_that_the_launcher_has_killed_since_waits_no_more() -> None:
    gone = End(kind=EndKind.EXITED, detail="came to the end of the script", exit_code=0, at_ns=5 * MS)
    second = collective("Barrier", 8, sequence=2)
    left = replace(dead(0, killed(signal.SIGKILL, 9), second), history=(BARRIER, second))
    finding = find_certain(
        inspection(left, RankState(rank=1, end=gone, positions={WORLD: 1}, history=(BARRIER,), threads=(None,)))
    )
    assert finding is not None
    assert finding.summary == (
        "rank 1 ended after 1 call of Barrier at train.py:8; rank 0 was in the 2nd and waited for it"
    )


def test_a_rank_that_exits_with_a_code_of_its_own_is_not_a_failure_of_the_job_to_be_found() -> None:
    own = End(kind=EndKind.EXITED, detail="os._exit(3)", exit_code=3, at_ns=5 * MS)
    assert find_first_failure(inspection(dead(0, own), dead(1, killed(signal.SIGKILL, 9)))) is None


LEAVES = End(kind=EndKind.EXITED, detail="os._exit(0)", site="train.py:7", exit_code=0, at_ns=10 * MS)


@pytest.mark.parametrize("is_inside", [True, False])
def test_a_rank_that_exits_is_named_and_not_those_that_the_launcher_kills_for_it(is_inside: bool) -> None:
    """Hydra kills the others as soon as one has left without a word, be it with code 0."""
    victim = dead(2, killed(signal.SIGKILL, 12), BARRIER if is_inside else None)
    finding = find_certain(inspection(waits(0, BARRIER), dead(1, LEAVES), victim, waits(3, BARRIER)))
    assert finding is not None
    assert (finding.kind, finding.ranks, finding.cause) == (FindingKind.PEER_GONE, (1,), Cause.EARLY_EXIT)
    assert finding.summary == (
        "rank 1 ended at train.py:7 (os._exit(0)); ranks 0, 3 wait for it in Barrier at train.py:8"
    )


def test_it_is_named_if_the_launcher_has_killed_all_others() -> None:
    victims = [dead(rank, killed(signal.SIGKILL, 12 + rank), BARRIER) for rank in (0, 2)]
    finding = after_the_job(victims[0], dead(1, LEAVES), victims[1])
    assert (finding.kind, finding.ranks) == (FindingKind.PEER_GONE, (1,))


def test_a_rank_that_left_when_nobody_needed_it_has_nothing_to_do_with_a_kill() -> None:
    finding = find_certain(
        inspection(
            waits(0, BARRIER), replace(dead(1, LEAVES), positions={WORLD: 1}), dead(2, killed(signal.SIGKILL, 12))
        )
    )
    assert finding is not None
    assert finding.ranks == (2,)


def test_ranks_killed_right_after_one_left_at_once_are_not_said_to_be_the_first() -> None:
    """Nobody needed the rank that left, so it was free to; and who kills for it is the launcher."""
    leaves = replace(LEAVES, at_once=True)
    ranks = [dead(0, killed(signal.SIGKILL, 14)), dead(1, leaves), dead(2, killed(signal.SIGKILL, 12))]
    assert find_first_failure(inspection(*ranks)) is None
    much_later = dead(2, killed(signal.SIGKILL, 5000))
    finding = find_first_failure(inspection(dead(0, killed(signal.SIGKILL, 5100)), dead(1, leaves), much_later))
    assert finding is not None
    assert finding.ranks == (2,)


def test_a_rank_that_died_of_a_call_which_it_had_only_started_names_the_one_that_had_gone() -> None:
    """DDP starts its collectives, and waits for them below Python: no record tells that the wait has failed."""
    started = collective("torch.all_reduce", 22, sequence=5, number=4, flags=NONBLOCKING, left_ns=1)
    lost = End(kind=EndKind.RAISED, detail="RuntimeError: Connection closed by peer", at_ns=20 * MS, by_peer=True)
    died = RankState(rank=0, end=lost, positions={WORLD: 5}, history=(started,))
    done = End(kind=EndKind.EXITED, exit_code=0, at_ns=10 * MS)
    gone = RankState(rank=1, end=done, positions={WORLD: 4}, history=(replace(started, sequence=4, number=3),))
    finding = find_certain(inspection(died, gone))
    assert finding is not None
    assert (finding.kind, finding.ranks) == (FindingKind.PEER_GONE, (1,))
    by_itself = replace(died, end=replace(lost, detail="ValueError", by_peer=False))
    assert find_certain(inspection(by_itself, gone)) is None
    elsewhere = replace(died, end=replace(lost, failed_call=2))  # another call has failed of it
    assert find_certain(inspection(elsewhere, gone)) is None


def raised(at_ms: float, site: str = "train.py:1", failed_call: int | None = None) -> End:
    """Return the end of a rank by an exception that nobody caught."""
    detail = "ModuleNotFoundError: No module named 'settings'"
    return End(kind=EndKind.RAISED, detail=detail, site=site, at_ns=int(at_ms * MS), failed_call=failed_call)


def test_ranks_that_all_raise_at_one_line_fail_alike_however_far_apart_they_come_to_it() -> None:
    assert find_first_failure(inspection(dead(0, raised(900)), dead(1, raised(10)), dead(2, raised(400)))) is None


def test_all_that_raised_at_the_line_are_named_and_those_that_the_launcher_ended_are_not() -> None:
    finding = after_the_job(dead(0, raised(900)), dead(1, raised(10)), dead(2, killed(signal.SIGTERM, 950)))
    assert finding.ranks == (0, 1)
    assert finding.summary == (
        "ranks 0-1 raised at train.py:1 (ModuleNotFoundError: No module named 'settings'); the other ranks were ended "
        "because of it"
    )


def test_a_rank_that_raises_later_at_another_line_or_in_a_call_is_not_among_the_first() -> None:
    elsewhere = after_the_job(
        dead(0, raised(900, "train.py:7")), dead(1, raised(10)), dead(2, raised(900, "train.py:9"))
    )
    assert elsewhere.ranks == (1,)
    in_call = after_the_job(dead(0, raised(900, failed_call=0), BARRIER), dead(1, raised(10)))
    assert in_call.ranks == (1,)


def _closed(at_ms: float, closed_ms: float) -> End:
    return replace(killed(signal.SIGKILL, at_ms), closed_ns=int(closed_ms * MS))


def test_of_ranks_that_were_killed_the_one_that_closed_its_files_first_is_named() -> None:
    """A launcher sees that, and kills the others; on a busy machine these may end before it."""
    ends = [_closed(40, 10), _closed(30, 20), _closed(32, 22)]
    finding = after_the_job(*(dead(rank, end, BARRIER) for rank, end in enumerate(ends)))
    assert finding.ranks == (0,)
    finding = after_the_job(*(dead(rank, replace(end, closed_ns=0), BARRIER) for rank, end in enumerate(ends)))
    assert finding.ranks == (1,)


def _stopped(number: int, *closed_ms: float) -> Inspection:
    """Return ranks that one signal has killed; others were being ended when the first had closed its files."""
    ends = [replace(killed(number, closed + 20), closed_ns=int(closed * MS), with_others=True) for closed in closed_ms]
    return inspection(*(dead(rank, end, BARRIER if rank else None) for rank, end in enumerate(ends)))


@pytest.mark.parametrize("told", [None, 1, 255 - 128, signal.SIGTERM])
def test_if_others_were_being_ended_when_the_first_had_gone_nobody_is_named(told: int | None) -> None:
    """A launcher whose time limit has run out kills all; they close their files whenever they get a processor."""
    stopped = _stopped(signal.SIGKILL, 10, 17, 25)
    assert find_certain(stopped) is None
    assert find_first_failure(stopped, told) is None


def test_if_the_launcher_says_that_a_rank_was_killed_the_first_is_named() -> None:
    finding = find_first_failure(_stopped(signal.SIGKILL, 10, 10.1, 10.2), signal.SIGKILL)
    assert finding is not None
    assert (finding.kind, finding.ranks, finding.cause) == (FindingKind.PEER_GONE, (0,), Cause.KILLED)
    assert finding.summary.startswith("rank 0 was killed (by SIGKILL); ranks 1-2 waited for it in Barrier")


def test_why_others_were_killed_is_not_said_if_it_may_be_the_whole_job() -> None:
    ends = [replace(killed(signal.SIGKILL, at), closed_ns=int(at * MS), with_others=True) for at in (10.0, 11.0)]
    finding = find_first_failure(inspection(*(dead(rank, end) for rank, end in enumerate(ends))), signal.SIGKILL)
    assert finding is not None
    assert finding.summary == "rank 0 was killed (by SIGKILL); the other ranks were killed right after it"


def test_a_signal_that_stops_jobs_and_comes_to_all_names_nobody_whatever_the_launcher_says() -> None:
    """It passes the signal on, and its code tells of it."""
    assert find_first_failure(_stopped(signal.SIGTERM, 10, 17, 25), signal.SIGTERM) is None


def test_a_rank_that_ended_alone_is_named_whatever_the_launcher_says() -> None:
    ends = [
        _closed(10.5, 10),
        replace(_closed(12.5, 12), with_others=True),
        replace(_closed(12.6, 12.1), with_others=True),
    ]
    finding = find_first_failure(inspection(*(dead(rank, end, BARRIER) for rank, end in enumerate(ends))), 1)
    assert finding is not None
    assert finding.ranks == (0,)


def _with_another(end: End) -> Inspection:
    """Return ranks that were stopped by SIGTERM, and another one."""
    return inspection(*_stopped(signal.SIGTERM, 10, 17).states(), dead(2, end, BARRIER))


@pytest.mark.parametrize(
    "end",
    [
        End(kind=EndKind.EXITED, exit_code=0, at_ns=900 * MS),
        End(kind=EndKind.RAISED, detail="RuntimeError", at_ns=12 * MS, by_peer=True, failed_call=0),
        replace(killed(signal.SIGKILL, 9000), closed_ns=9000 * MS, with_others=False),
    ],
    ids=["handled it", "lost its peers", "was killed after a while"],
)
def test_nobody_is_named_either_if_one_rank_did_not_end_by_the_signal(end: End) -> None:
    finding = find_first_failure(_with_another(end), signal.SIGTERM)
    assert finding is None


def test_if_the_kernel_does_not_tell_all_signals_it_may_be_the_whole_job_all_the_same() -> None:
    ends = [replace(killed(signal.SIGKILL, at), closed_ns=int(at * MS), with_others=True) for at in (10.0, 11.0, 12.0)]
    for unknown in (0, 1):
        ends[unknown] = replace(ends[unknown], signal=None)
        states = inspection(*(dead(rank, end, BARRIER) for rank, end in enumerate(ends)))
        assert find_first_failure(states, None) is None
        finding = find_first_failure(states, signal.SIGKILL)
        assert finding is not None
        assert finding.ranks == (0,)


def test_one_that_was_killed_while_others_lost_it_as_their_peer_is_named() -> None:
    """They are on their way out by then, but nobody has killed them."""
    end = replace(killed(signal.SIGKILL, 10), closed_ns=10 * MS, with_others=True)
    lost = End(kind=EndKind.RAISED, detail="RuntimeError: closed by peer", at_ns=60 * MS, by_peer=True)
    finding = find_first_failure(inspection(dead(0, lost), dead(1, end), dead(2, lost)))
    assert finding is not None
    assert finding.ranks == (1,)


def test_memory_that_something_else_has_run_out_of_does_not_name_a_rank_of_a_job_that_is_ended() -> None:
    def short(at_ms: float, held: int) -> End:
        end = replace(killed(signal.SIGKILL, at_ms), cause=Cause.OUT_OF_MEMORY, memory_bytes=held)
        return replace(end, closed_ns=int(at_ms * MS), with_others=True)

    assert find_first_failure(inspection(dead(0, short(10, 5)), dead(1, short(11, 6)), dead(2, short(11, 7)))) is None
    finding = find_first_failure(inspection(dead(0, short(10, 5)), dead(1, short(11, 900)), dead(2, short(11, 7))))
    assert finding is not None
    assert finding.ranks == (1,)


def test_one_that_another_signal_killed_after_the_others_is_not_the_first() -> None:
    """It has handled the signal that stopped the job, and the launcher did not wait for it."""
    ends = [replace(killed(signal.SIGTERM, at), closed_ns=int(at * MS), with_others=True) for at in (10.0, 11.0, 12.0)]
    ends.append(replace(killed(signal.SIGKILL, 14), closed_ns=14 * MS))
    assert find_first_failure(inspection(*(dead(rank, end, BARRIER) for rank, end in enumerate(ends))), 15) is None
    first = replace(ends[3], closed_ns=9 * MS)
    finding = find_first_failure(inspection(*(dead(rank, end) for rank, end in enumerate([*ends[:3], first]))), 15)
    assert finding is not None
    assert finding.ranks == (3,)


def _told_one_after_the_other() -> Inspection:
    """Return ranks that torchrun has stopped: it tells one after the other, so others go on when the first has gone."""
    ends = [replace(killed(signal.SIGTERM, at + 2), closed_ns=int(at * MS)) for at in (10.0, 20.0, 20.2)]
    return inspection(*(dead(rank, end, BARRIER) for rank, end in enumerate(ends)))


def test_nobody_is_named_if_the_launcher_says_that_it_was_told_to_end() -> None:
    assert find_first_failure(_told_one_after_the_other(), was_stopped=True) is None


def test_a_rank_that_somebody_has_told_to_end_is_named_if_the_launcher_was_not() -> None:
    finding = find_first_failure(_told_one_after_the_other())
    assert finding is not None
    assert (finding.ranks, finding.cause) == ((0,), Cause.KILLED)
    assert finding.summary.endswith("the other ranks were ended because of it")


def test_a_rank_that_failed_by_itself_is_named_also_if_the_launcher_was_told_to_end_afterwards() -> None:
    states = _told_one_after_the_other().states()
    finding = find_first_failure(inspection(*list(states)[:2], dead(2, raised(5))), was_stopped=True)
    assert finding is not None
    assert finding.ranks == (2,)


def test_a_rank_that_crashes_in_a_call_after_another_was_killed_is_not_the_first() -> None:
    """The library did not survive that its peer had gone; the launcher has killed the others."""
    crashed = replace(killed(signal.SIGSEGV, 12), closed_ns=11 * MS)
    states = [dead(0, _closed(30, 25), BARRIER), dead(1, crashed, BARRIER), dead(2, _closed(15, 10))]
    finding = find_first_failure(inspection(*states))
    assert finding is not None
    assert finding.ranks == (2,)
    assert [group.detail for group in finding.groups if 2 not in group.ranks] == ["afterwards"]


def test_a_rank_that_crashes_in_a_call_before_another_was_killed_is_the_first() -> None:
    crashed = replace(killed(signal.SIGSEGV, 20), closed_ns=9 * MS)
    finding = find_first_failure(inspection(dead(0, _closed(15, 10)), dead(1, crashed, BARRIER)))
    assert finding is not None
    assert finding.ranks == (1,)
