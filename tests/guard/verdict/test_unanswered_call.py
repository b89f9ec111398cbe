"""A rank that waits for a function on another: stuck only if that rank has ended."""

from __future__ import annotations

from typing import Any

from tests.guard.verdict.simulated import WORLD, collective, message

from paceline.guard.shared_memory.layout import OWN_TIMEOUT
from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.finding import Finding, FindingKind
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks

WORKERS = "9f3c.0.rpc-1"
SHUTDOWN = Call(operation="torch.rpc.shutdown", communicator=WORKERS, site="train.py:9", sequence=2)


def _calls(peer: int, **more: Any) -> Call:
    return Call(operation="torch.rpc_sync", communicator=WORKERS, site="train.py:5", peer=peer, **more)


def _rank(rank: int, *calls: Call) -> RankState:
    """Return a worker whose threads are inside these calls."""
    positions = {WORKERS: max([1, *(call.sequence for call in calls if call.communicator == WORKERS)])}
    threads = tuple(Waiting(call=call) for call in calls) or (None,)
    return RankState(rank=rank, threads=threads, positions=positions, history=calls)


def _inspection(*ranks: RankState) -> Inspection:
    numbers = tuple(range(len(ranks)))
    known = {WORKERS: Membership(name="rpc", ranks=numbers), WORLD: Membership(name="WORLD", ranks=numbers)}
    return Inspection(Snapshot(ranks=ranks, communicators=known))


def _stuck(*ranks: RankState) -> frozenset[int]:
    return stuck_ranks(_inspection(*ranks).snapshot, cautious=False)


def _finding(*ranks: RankState) -> Finding:
    finding = find_stuck(_inspection(*ranks), cautious=False)
    assert finding is not None
    return finding


def test_a_call_on_its_way_to_a_rank_that_waits_for_its_caller_is_answered() -> None:
    assert not _stuck(_rank(0, _calls(1)), _rank(1, SHUTDOWN))


def test_an_answer_on_its_way_is_waited_for() -> None:
    assert not _stuck(_rank(0, _calls(1)), _rank(1, SHUTDOWN))


def test_a_function_that_runs_may_answer() -> None:
    called = RankState(rank=1, threads=(Waiting(call=SHUTDOWN), None), positions={WORKERS: 2})
    assert not _stuck(_rank(0, _calls(1)), called)


def test_workers_that_can_call_each_other_are_not_called_stuck() -> None:
    receive = message("torch.recv", 3, 0)
    ranks = _rank(0, _calls(1)), _rank(1, SHUTDOWN, receive)
    assert not _stuck(*ranks)  # an answer may be under way, and start what waits for it
    assert not stuck_ranks(
        _inspection(_rank(0, message("torch.recv", 3, 1)), _rank(1, SHUTDOWN)).snapshot, cautious=True
    )
    left = RankState(rank=2, positions={WORKERS: 2}, freed=frozenset({WORKERS}))  # it can call nobody any more
    assert not _stuck(*ranks, left)


def test_ranks_that_have_left_the_workers_are_judged_as_others() -> None:
    receives = [
        RankState(
            rank=rank, threads=(Waiting(call=message("torch.recv", 3, 1 - rank)),), positions={WORKERS: 2},
            freed=frozenset({WORKERS}),
        )
        for rank in range(2)
    ]  # fmt: skip
    assert _stuck(*receives) == {0, 1}


def test_a_rank_whose_communicators_are_not_all_known_may_be_a_worker() -> None:
    unknown = RankState(rank=1, threads=(Waiting(call=message("torch.recv", 3, 0)),), communicators_known=False)
    assert not _stuck(_rank(0, message("torch.recv", 3, 1)), unknown)


def test_a_rank_that_has_ended_answers_nothing() -> None:
    gone = RankState(rank=1, end=End(kind=EndKind.EXITED, detail="os._exit(0)", at_ns=1), positions={WORKERS: 1})
    finding = _finding(_rank(0, _calls(1)), gone)
    assert (finding.kind, finding.ranks) == (FindingKind.PEER_GONE, (1,))
    assert "rank 0 waits for it in rpc_sync at train.py:5" in finding.summary
    own = _calls(1, flags=OWN_TIMEOUT)
    assert not _stuck(_rank(0, own), gone)
    assert _stuck(_rank(0, _calls(1)), gone, _rank(2, SHUTDOWN)) == {0, 2}  # also beside one that could call it


def test_a_rank_that_never_joined_is_missed_by_the_others() -> None:
    init = collective("torch.init_rpc", 4, WORKERS, sequence=1)
    gone = RankState(rank=1, end=End(kind=EndKind.EXITED, at_ns=1))
    finding = find_certain(_inspection(_rank(0, init), gone))
    assert finding is not None
    assert (finding.kind, finding.ranks) == (FindingKind.PEER_GONE, (1,))
    assert "init_rpc at train.py:4" in finding.summary
