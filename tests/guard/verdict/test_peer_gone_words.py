"""The words of the rule of ended ranks: how they ended, who needed them, and what to change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.guard.verdict.simulated import SPLIT, WORLD, certain, collective, communicators, judge, message, waits

from paceline.guard.shared_memory.layout import FAILED
from paceline.guard.verdict.diagnose import find_certain, find_first_failure
from paceline.guard.verdict.finding import Cause, Finding, FindingKind, GroupState
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import End, EndKind, RankState, Snapshot, Waiting

BARRIER = collective("Barrier", 20)
EARLIER = collective("Bcast", 3, root=0)
RAISED = End(kind=EndKind.RAISED, detail="ValueError: no data", site="train.py:11", at_ns=5)


def ended(end: End) -> Finding:
    """Return the finding about a job whose second rank ends before the barrier of the others."""
    finding = judge([[EARLIER, BARRIER], [EARLIER], [EARLIER, BARRIER]], ends={1: end})
    assert (finding.kind, finding.field) == (FindingKind.PEER_GONE, None)
    assert finding.ranks == (1,)
    return finding


@pytest.mark.parametrize(
    ("end", "cause", "how", "advice"),
    [
        (
            RAISED, Cause.EXCEPTION, "raised at train.py:11 (ValueError: no data)",
            "fix the exception raised at train.py:11, or notify the other ranks before exiting",
        ),
        (
            End(kind=EndKind.RAISED, detail="OSError: No space left", site="train.py:9", cause=Cause.DISK_FULL),
            Cause.DISK_FULL, "raised at train.py:9 (OSError: No space left)",
            "make room on the disk, raise the quota or the limit on file sizes, or write elsewhere",
        ),
        (
            End(kind=EndKind.KILLED, detail="SIGKILL", signal=9, cause=Cause.OUT_OF_MEMORY), Cause.OUT_OF_MEMORY,
            "was killed (SIGKILL)",
            "lower what a rank holds at one time (batch size, workers, caches), or give it more memory",
        ),
        (
            End(kind=EndKind.KILLED, detail="SIGTERM", signal=15), Cause.KILLED, "was killed (SIGTERM)",
            "find out who sent the signal: the system's log, the batch system, another program",
        ),
        (
            End(kind=EndKind.KILLED, detail="SIGSEGV", signal=11), Cause.KILLED, "was killed (SIGSEGV)",
            "look for a fault in compiled code that this rank runs: start it with -X faulthandler",
        ),
        (
            End(kind=EndKind.EXITED, detail="sys.exit(0)", site="train.py:14"), Cause.EARLY_EXIT,
            "ended at train.py:14 (sys.exit(0))", "let every rank make the same calls before it ends",
        ),
    ],
)  # fmt: skip
def test_how_a_rank_ended_is_said_with_who_waits_for_it(end: End, cause: Cause, how: str, advice: str) -> None:
    finding = ended(end)
    assert finding.summary == f"rank 1 {how}; ranks 0, 2 wait for it in Barrier at train.py:20"
    assert (finding.cause, finding.advice) == (cause, advice)


def test_a_rank_that_raised_in_a_collective_has_not_made_it() -> None:
    """Its arguments were refused before anything was sent: the others are in the call, and wait."""
    refused = collective("Bcast", 7, sequence=1, root=0, number=4, flags=FAILED, entered_ns=1, left_ns=2)
    end = End(kind=EndKind.RAISED, detail="BufferError: not contiguous", site="train.py:7", failed_call=4, at_ns=3)
    gone = RankState(rank=0, end=end, threads=(), positions={WORLD: 1}, history=(refused,))
    others = [waits(rank, collective("Bcast", 7, sequence=1, root=0)) for rank in (1, 2)]
    finding = certain(gone, *others)
    assert (finding.kind, finding.ranks, finding.cause) == (FindingKind.PEER_GONE, (0,), Cause.EXCEPTION)
    assert finding.summary == (
        "rank 0 raised at train.py:7 (BufferError: not contiguous); ranks 1-2 wait for it in Bcast at train.py:7"
    )


def test_a_rank_that_has_finalized_is_told_by_that_call() -> None:
    gone = RankState(rank=1, positions={WORLD: 0}, freed=frozenset({WORLD}), finalized_at="train.py:8")
    others = [waits(rank, collective("Barrier", 20, sequence=1)) for rank in (0, 2)]
    finding = certain(others[0], gone, others[1])
    assert (finding.kind, finding.ranks, finding.cause) == (FindingKind.PEER_GONE, (1,), Cause.EARLY_EXIT)
    assert finding.summary == (
        "rank 1 called MPI.Finalize at train.py:8; ranks 0, 2 wait for it in Barrier at train.py:20"
    )
    (group,) = [group for group in finding.groups if group.ranks == (1,)]
    assert (group.site, group.detail) == ("train.py:8", "has called MPI.Finalize")


def test_a_rank_that_leaves_inside_a_call_has_not_made_it() -> None:
    """A reduction of the user's own exits: the rank was in its second call, as the others are."""
    calls = [collective("Allreduce", 16, sequence=number, number=number, left_ns=number == 1) for number in (1, 2)]
    end = End(kind=EndKind.EXITED, detail="os._exit(5)", site="train.py:10", exit_code=5, at_once=True, at_ns=9)
    gone = RankState(
        rank=1, end=end, threads=(Waiting(call=calls[1]),), positions={WORLD: 2}, history=tuple(calls)
    )  # fmt: skip
    others = [
        RankState(rank=rank, threads=(Waiting(call=calls[1]),), positions={WORLD: 2}, history=tuple(calls))
        for rank in (0, 2)
    ]
    finding = certain(others[0], gone, others[1])
    assert (finding.ranks, finding.cause) == ((1,), Cause.EARLY_EXIT)
    assert finding.summary == (
        "rank 1 ended (os._exit(5) at train.py:10) inside its 2nd call of Allreduce at train.py:16; ranks 0, 2 are in "
        "the 2nd and wait for it"
    )


def test_a_rank_that_a_library_has_ended_is_not_told_to_make_calls() -> None:
    finding = ended(End(kind=EndKind.EXITED, detail="exit code 14, not by way of Python", exit_code=14))
    assert finding.advice == "see what the rank has printed: something has ended it with exit code 14"


def test_several_ended_ranks_are_named_together() -> None:
    killed = End(kind=EndKind.KILLED, detail="SIGTERM", signal=15)
    stays, ends = [EARLIER, BARRIER], [EARLIER]
    finding = judge([stays, ends, ends, stays, stays], ends={1: killed, 2: killed})
    assert finding.summary == ("ranks 1-2 were killed (SIGTERM); ranks 0, 3-4 wait for them in Barrier at train.py:20")


def test_a_rank_that_leaves_a_loop_by_ending() -> None:
    step = collective("Allreduce", 8)
    end = End(kind=EndKind.EXITED, detail="sys.exit(0)", site="train.py:9")
    finding = judge([[step] * 4, [step] * 2, [step] * 4], ends={1: end})
    assert (finding.cause, finding.ranks) == (Cause.UNEVEN_STEPS, (1,))
    assert finding.summary == (
        "rank 1 ended (sys.exit(0) at train.py:9) after 2 calls of Allreduce at train.py:8; ranks 0, 2 are in the 3rd "
        "and wait for it"
    )


def test_a_library_that_ends_the_process_has_not_left_a_loop() -> None:
    step = collective("Allreduce", 8)
    end = End(kind=EndKind.EXITED, detail="exit code 127, not by way of Python", exit_code=127)
    finding = judge([[step] * 4, [step] * 2, [step] * 4], ends={1: end})
    assert (finding.cause, finding.ranks) == (Cause.EARLY_EXIT, (1,))
    assert finding.summary == (
        "rank 1 ended (exit code 127, not by way of Python); ranks 0, 2 wait for it in Allreduce at train.py:8"
    )


EXITS_IN_THE_LOOP = """\
for step in range(9):
    comm.Allreduce(gradient)
    if loss > 100:
        sys.exit(0)
sys.exit(0)
"""


@pytest.mark.parametrize(("line", "cause"), [(4, Cause.EARLY_EXIT), (5, Cause.UNEVEN_STEPS)])
def test_an_exit_inside_the_loop_is_told_from_one_behind_it(line: int, cause: Cause) -> None:
    step = collective("Allreduce", 2)
    end = End(kind=EndKind.EXITED, detail="sys.exit(0)", site=f"train.py:{line}")
    finding = judge([[step] * 4, [step] * 2, [step] * 4], ends={1: end}, source=EXITS_IN_THE_LOOP)
    assert finding.cause is cause
    if cause is Cause.EARLY_EXIT:
        assert finding.advice == (
            "find out why rank 1 came to sys.exit(0) at train.py:4: decide together (an all_reduce of a flag) when to "
            "end, and end all ranks after the same call"
        )


def test_only_ranks_that_need_the_ended_one_are_said_to_wait_for_it() -> None:
    finding = judge([[message("Recv", 5, peer=2)], [], [message("Recv", 7, peer=1)]])
    assert finding.ranks == (1,)
    assert "to rank 2, which waits in Recv at train.py:7" in finding.summary
    assert "train.py:5" not in finding.summary


def test_one_call_is_singular() -> None:
    step = collective("Allreduce", 8)
    finding = judge([[step] * 2, [step], [step] * 2])
    assert finding.summary.startswith("rank 1 ended after 1 call of Allreduce at train.py:8; ranks 0, 2 are in the 2nd")


SOURCE = """
if rank == 0:
    comm.Barrier()
"""


def test_a_call_that_only_a_minority_makes() -> None:
    finding = judge([[collective("Barrier", 2)], [], []], source=SOURCE)
    assert (finding.cause, finding.ranks) == (Cause.RANK_CONDITIONAL_CALL, (0,))
    assert finding.summary == (
        "only rank 0 makes the Barrier at train.py:2, under `if rank == 0`; ranks 1-2 ended without it"
    )
    assert finding.advice == "let every rank make the Barrier at train.py:2, or none"


def test_a_freed_communicator() -> None:
    call = collective("Barrier", 6, sequence=1)
    finding = certain(waits(0, call), RankState(rank=1, freed=frozenset({"mpi-world"})))
    assert (finding.cause, finding.ranks) == (Cause.EARLY_EXIT, (1,))
    assert finding.summary == "rank 1 freed the communicator; rank 0 waits for it in Barrier at train.py:6"
    assert finding.advice == "free a communicator, or destroy a group, only after the last collective on it"


def test_a_rank_that_died_of_the_message_is_said_to_have_failed_because_of_it() -> None:
    receive = message("recv", 8, peer=1, number=4)
    died = End(kind=EndKind.RAISED, detail="RuntimeError: closed", at_ns=10, failed_call=4, by_peer=True)
    gone = End(kind=EndKind.EXITED, detail="os._exit(0)", site="train.py:3", at_ns=5)
    finding = certain(RankState(rank=0, end=died, history=(receive,)), RankState(rank=1, end=gone), RankState(rank=2))
    assert finding.summary == (
        "rank 1 ended at train.py:3 (os._exit(0)); rank 0 failed in recv at train.py:8 because of it"
    )
    assert [group.detail for group in finding.groups if group.ranks == (0,)] == ["afterwards"]


def test_a_receive_from_a_rank_that_has_ended() -> None:
    finding = judge([[message("Recv", 5, peer=1)], []])
    assert (finding.kind, finding.cause, finding.ranks) == (FindingKind.PEER_GONE, Cause.EARLY_EXIT, (1,))
    assert finding.summary == (
        "rank 1 ended after it sent 0 messages with tag 0 to rank 0, which waits in Recv at train.py:5 for the 1st"
    )


def test_the_first_failure_of_a_job_that_is_over() -> None:
    own = End(kind=EndKind.RAISED, detail="KeyError: 'x'", site="train.py:2", at_ns=100)
    victim = End(kind=EndKind.KILLED, detail="SIGTERM", signal=15, at_ns=200)
    ranks = [RankState(rank=0, end=victim), RankState(rank=1, end=own), RankState(rank=2, end=victim)]
    finding = find_first_failure(Inspection(Snapshot(ranks=ranks, communicators=communicators(3))))
    assert finding is not None
    assert finding.ranks == (1,)
    assert finding.summary == ("rank 1 raised at train.py:2 (KeyError: 'x'); the other ranks were ended because of it")
    assert [(group.ranks, group.state, group.detail) for group in finding.groups] == [
        ((0, 2), GroupState.KILLED, "afterwards"),
        ((1,), GroupState.RAISED, "KeyError: 'x'"),
    ]


def test_ranks_that_were_ended_inside_a_collective_are_told_with_it() -> None:
    call = collective("allreduce", 9, sequence=2)
    own = End(kind=EndKind.KILLED, detail="by SIGSEGV", signal=11, at_ns=100)
    victim = End(kind=EndKind.KILLED, detail="by SIGTERM", signal=15, at_ns=200)
    ranks = [replace(waits(rank, call), end=victim) for rank in (0, 1)]
    gone = RankState(rank=2, end=own, positions={WORLD: 1})
    finding = find_first_failure(Inspection(Snapshot(ranks=[*ranks, gone], communicators=communicators(3))))
    assert finding is not None
    assert finding.ranks == (2,)
    assert finding.summary == ("rank 2 was killed (by SIGSEGV); ranks 0-1 waited for it in allreduce at train.py:9")
    assert [(group.ranks, group.call, group.site) for group in finding.groups] == [
        ((0, 1), "allreduce", "train.py:9"),
        ((2,), None, None),
    ]


def test_a_rank_that_was_ended_already_is_shown_in_its_call_beside_those_who_still_wait() -> None:
    call = collective("allreduce", 9, sequence=2)
    own = End(kind=EndKind.KILLED, detail="by SIGSEGV", signal=11, at_ns=100)
    victim = End(kind=EndKind.KILLED, detail="by SIGTERM", signal=15, at_ns=200)
    gone = RankState(rank=2, end=own, positions={WORLD: 1})
    finding = certain(waits(0, call), replace(waits(1, call), end=victim), gone)
    assert finding.ranks == (2,)
    assert {group.ranks: group.site for group in finding.groups} == {(0,): "train.py:9", (1,): "train.py:9", (2,): None}


def test_a_job_whose_ranks_all_fail_by_themselves_has_no_first_failure() -> None:
    ranks = [RankState(rank=rank, end=RAISED) for rank in range(3)]
    assert find_first_failure(Inspection(Snapshot(ranks=ranks, communicators=communicators(3)))) is None


def test_ended_ranks_are_missed_on_their_own_communicator_alone() -> None:
    split = collective("Barrier", 7, communicator=SPLIT)
    finding = judge([[split], [split], [], []], split=(0, 1, 2))
    assert finding.ranks == (2,)
    assert "rank 2 ended" in finding.summary


def test_a_call_that_all_had_to_come_to_and_that_is_over_has_missed_nobody() -> None:
    over = collective("Allreduce", 6, sequence=1, num_bytes=8, left_ns=5)
    ranks = [
        RankState(rank=0, positions={"mpi-world": 1}, history=(over,)),
        RankState(rank=1, end=End(kind=EndKind.EXITED, exit_code=0)),
    ]
    assert find_certain(Inspection(Snapshot(ranks=ranks, communicators=communicators(2)))) is None
