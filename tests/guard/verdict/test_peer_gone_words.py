"""The words of the rule of ended ranks: how they ended, who needed them, and what to change."""

from __future__ import annotations

import pytest
from tests.guard.verdict.simulated import SPLIT, certain, collective, communicators, judge, message, waits

from paceline.guard.verdict.diagnose import find_certain, find_first_failure
from paceline.guard.verdict.finding import Cause, Finding, FindingKind, GroupState
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import End, EndKind, RankState, Snapshot

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
    assert finding.summary == "rank 1 ended; rank 0 waits for it in Recv at train.py:5"


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
