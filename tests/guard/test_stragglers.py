"""Who is waited for, asked at any moment: also right after a signal has ended those who waited."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from paceline.guard.judge.stragglers import Stragglers
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting


class _NothingCompiled:
    def stands(self, world: Any) -> dict[int, Any]:
        return {}

    def blind_because(self, world: Any) -> str:
        return ""


class _Job:
    """A job that shows one snapshot after the other, and then the last one for ever."""

    name = "job"
    world_ranks: ClassVar[dict[int, Any]] = {}

    def __init__(self, *snapshots: Snapshot) -> None:
        self.ranks: dict[int, Any] = {}
        self._snapshots = list(snapshots)

    def snapshot(self, history: int) -> Snapshot:
        return self._snapshots.pop(0) if len(self._snapshots) > 1 else self._snapshots[0]


def _waiting_job() -> Snapshot:
    call = Call(
        operation="Barrier", communicator="world", sequence=1, site="train.py:6", entered_ns=time.monotonic_ns()
    )
    waits = RankState(rank=0, threads=(Waiting(call=call),), positions={"world": 1})
    known = {"world": Membership(name="WORLD", ranks=(0, 1))}
    return Snapshot(ranks=[waits, RankState(rank=1)], communicators=known)


def _ended(snapshot: Snapshot) -> Snapshot:
    end = End(kind=EndKind.RAISED, detail="KeyboardInterrupt")
    return replace(snapshot, ranks=[replace(cast(RankState, state), end=end) for state in snapshot.ranks])


def _stragglers() -> Stragglers:
    return Stragglers(100.0, None, cast(Any, _NothingCompiled()))


def test_ranks_that_a_signal_has_ended_meanwhile_were_waiting() -> None:
    waiting = _waiting_job()
    job, stragglers = cast(Any, _Job(waiting, _ended(waiting))), _stragglers()
    assert stragglers.look(job) == []
    notice = stragglers.now(job)
    assert notice is not None
    assert "rank 0 has waited 0 s in Barrier at train.py:6 for rank 1" in notice.summary


def test_ranks_that_were_never_seen_to_wait_are_not_told() -> None:
    job = cast(Any, _Job(_ended(_waiting_job())))
    assert _stragglers().now(job) is None


def test_ranks_that_have_gone_on_do_not_wait() -> None:
    waiting = _waiting_job()
    goes_on = replace(waiting, ranks=[RankState(rank=0), RankState(rank=1)])
    job, stragglers = cast(Any, _Job(waiting, goes_on)), _stragglers()
    assert stragglers.look(job) == []
    assert stragglers.now(job) is None


def test_a_late_rank_is_told_with_the_call_that_a_thread_of_it_is_inside() -> None:
    waiting = _waiting_job()
    call = Call(operation="Bcast", communicator="world", sequence=1, site="train.py:9")
    states = [waiting.ranks[0], RankState(rank=1, threads=(None, Waiting(call=call)))]
    job = cast(Any, _Job(replace(waiting, ranks=states)))
    process = SimpleNamespace(pid=0, has_ended=lambda: True, activity=lambda: None)
    job.ranks[1] = SimpleNamespace(process=process, reader=None)
    notice = _stragglers().now(job)
    assert notice is not None
    assert [late.text for late in notice.late] == ["is gone, while a thread of it is in Bcast on WORLD at train.py:9"]
