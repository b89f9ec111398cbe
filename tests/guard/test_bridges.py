"""Jobs that have met: which halves belong together, and what the judge makes of both. Ranks are recorders here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.guard.judge.judge import Judge
from paceline.guard.observe.board_reader import differing_positions
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.worlds.bridges import JobMeeting, find_bridges, read_meetings, rename_half
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory.layout import OF_OTHER_JOB, SENT
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.rank_names import WorldRank

_BARRIER, _BCAST, _RECV = BY_NAME["Barrier"].code, BY_NAME["Bcast"].code, BY_NAME["Recv"].code
_SECOND = 1_000_000_000


def meeting(kind: str, bridge: str, **facts: Any) -> JobMeeting:
    """Return one side of a meeting, of two ranks with two others unless said otherwise."""
    begun, ended = facts.pop("times", (10 * _SECOND, 20 * _SECOND))
    known = {"size": 2, "others": 2, "marks": frozenset({"command"}), "world": f"world of {bridge}", **facts}
    return JobMeeting(kind=kind, bridge=bridge, begun_ns=begun, ended_ns=ended, **known)


def pairs(*meetings: JobMeeting) -> list[tuple[str, str]]:
    """Return who has met whom."""
    return [(bridge.first.bridge, bridge.second.bridge) for bridge in find_bridges(meetings)]


@pytest.mark.parametrize(
    ("facts", "fits"),
    [
        ({"times": (12 * _SECOND, 19 * _SECOND)}, True),
        ({"times": (12 * _SECOND, 30 * _SECOND)}, True),  # parents return from Spawn before the others are ready
        ({"times": (9 * _SECOND, 19 * _SECOND)}, False),  # they were there before
        ({"times": (21 * _SECOND, 29 * _SECOND)}, False),  # they came after
        ({"times": (12 * _SECOND, 19 * _SECOND), "marks": frozenset({"another"})}, False),
        ({"times": (12 * _SECOND, 19 * _SECOND), "size": 3}, False),
        ({"times": (12 * _SECOND, 19 * _SECOND), "others": 1}, False),
    ],
)
def test_spawned_ranks_were_started_during_the_spawn_by_its_command(facts: dict[str, Any], fits: bool) -> None:
    assert pairs(meeting("Spawn", "parents"), meeting("Get_parent", "spawned", **facts)) == (
        [("parents", "spawned")] if fits else []
    )


def test_two_spawns_at_the_same_time_with_one_command_tell_nothing() -> None:
    children = [meeting("Get_parent", name, times=(12 * _SECOND, 19 * _SECOND)) for name in ("c", "d")]
    assert pairs(meeting("Spawn", "a"), meeting("Spawn", "b"), *children) == []
    assert pairs(meeting("Spawn", "a"), *children) == []


def test_a_spawn_that_has_not_ended_may_be_the_one() -> None:
    spawned = meeting("Get_parent", "c", times=(12 * _SECOND, 19 * _SECOND))
    running = meeting("Spawn", "b", times=(11 * _SECOND, None), others=0)
    assert pairs(meeting("Spawn", "a"), running, spawned) == []
    assert pairs(running, spawned) == [("b", "c")]


def test_clients_are_told_apart_by_who_else_can_have_met_whom() -> None:
    first, second = meeting("Accept", "a", times=(1, 10)), meeting("Accept", "b", times=(11, 20))
    early, late = meeting("Connect", "c", times=(5, 12)), meeting("Connect", "d", times=(11, 19))
    assert pairs(first, second, early) == []  # the early client may have met either
    assert pairs(first, second, early, late) == [("a", "c"), ("b", "d")]


def test_a_failed_spawn_has_met_nobody() -> None:
    failed = meeting("Spawn", "a", others=0)
    assert pairs(failed, meeting("Get_parent", "c", times=(12 * _SECOND, 19 * _SECOND))) == []


def test_a_meeting_is_read_from_what_its_root_says() -> None:
    begun = {"meeting": "a", "side": "w.0", "kind": "Spawn", "begun": 5, "size": 2, "marks": ["m"]}
    (running,) = read_meetings([begun])
    assert (running.ended_ns, running.world, running.marks) == (None, "w.0", frozenset({"m"}))
    (over,) = read_meetings([begun, {"meeting": "a", "side": "w.0", "ended": 9, "others": 3}])
    assert (over.begun_ns, over.ended_ns, over.others) == (5, 9, 3)


def test_what_is_made_from_a_bridge_has_one_name_in_both_jobs() -> None:
    names = {"cd": ("w.0", "ab")}
    assert rename_half("v.0.bridge-cd-77", names) == "w.0.bridge-ab-77"
    assert rename_half("v.0.bridge-ef-77", names) == "v.0.bridge-ef-77"


# rings of parents and of the ranks that they have spawned, two of each


@pytest.fixture
def rings(tmp_path: Path) -> Iterator[LocalRings]:
    found = LocalRings(tmp_path)
    yield found
    found.close()


def _tell(recorder: Recorder, bridge: str, side: str, kind: str, begun: int) -> None:
    recorder.ring.write_text({"meeting": bridge, "side": side, "kind": kind, "begun": begun, "size": 2, "marks": ["m"]})
    recorder.ring.write_text({"meeting": bridge, "side": side, "ended": 20 * _SECOND, "others": 2})


def _half(recorder: Recorder, bridge: str, rank: int, *, is_first: bool) -> Communicator:
    strangers = (OF_OTHER_JOB, OF_OTHER_JOB)
    ranks = (0, 1, *strangers) if is_first else (*strangers, 0, 1)
    name = "Spawn" if is_first else "Get_parent"
    made = recorder.communicator(f"inter-2-bridge-{bridge}-0", name, ranks, rank if is_first else 2 + rank)
    assert made is not None
    return made


class _Jobs:
    """Two parents and two spawned ranks, each with its half of the bridge."""

    def __init__(self, folder: Path) -> None:
        self.parents = [Recorder(folder, f"parents.0.{rank}", rank=rank, world_size=2) for rank in range(2)]
        self.spawned = [Recorder(folder, f"spawned.0.{rank}", rank=rank, world_size=2) for rank in range(2)]
        self.of_parents = [_half(one, "ab", rank, is_first=True) for rank, one in enumerate(self.parents)]
        self.of_spawned = [_half(one, "cd", rank, is_first=False) for rank, one in enumerate(self.spawned)]
        _tell(self.parents[1], "ab", "parents.0", "Spawn", 10 * _SECOND)

    def meet(self, rings: LocalRings) -> None:
        _tell(self.spawned[0], "cd", "spawned.0", "Get_parent", 12 * _SECOND)
        rings.jobs()  # whom they have met is asked at the next look


def test_a_half_without_the_other_is_left_out(tmp_path: Path, rings: LocalRings) -> None:
    jobs = _Jobs(tmp_path)
    jobs.parents[0].begin_collective(jobs.of_parents[0], _BARRIER, depth=1)
    assert [(job.name, sorted(job.ranks)) for job in rings.jobs()] == [("parents.0", [0, 1]), ("spawned.0", [0, 1])]
    assert all(not job.snapshot(history=5).communicators for job in rings.jobs())


def test_jobs_that_have_met_are_one_job_with_one_communicator(tmp_path: Path, rings: LocalRings) -> None:
    jobs = _Jobs(tmp_path)
    jobs.meet(rings)
    (job,) = rings.jobs()
    assert (job.name, job.world_size, sorted(job.ranks)) == ("parents.0", 4, [0, 1, 2, 3])
    jobs.parents[0].begin_collective(jobs.of_parents[0], _BARRIER, depth=1)
    jobs.spawned[1].begin_collective(jobs.of_spawned[1], _BARRIER, depth=1)
    jobs.spawned[1].messages.count(jobs.of_spawned[1], SENT, 0, 7)
    snapshot = job.snapshot(history=5)
    ((identity, known),) = snapshot.communicators.items()
    assert (known.name, known.ranks, known.num_first) == ("Spawn", (0, 1, 2, 3), 2)
    assert [state.positions[identity] for state in snapshot.ranks if state is not None] == [1, 0, 0, 1]
    assert snapshot.world_ranks == {number: WorldRank(rank=number - 2, world="the spawned WORLD") for number in (2, 3)}
    last = snapshot.ranks[3]
    assert last is not None
    assert last.sent == {(identity, 0, 7): 1}


def test_a_rank_whose_ring_comes_late_belongs_to_the_bridge_too(tmp_path: Path, rings: LocalRings) -> None:
    jobs = _Jobs(tmp_path)
    (tmp_path / "ring.spawned.0.1").rename(tmp_path / "late")
    jobs.meet(rings)
    rings.jobs()
    (tmp_path / "late").rename(tmp_path / "ring.spawned.0.1")
    (job,) = rings.jobs()
    (known,) = job.snapshot(history=0).communicators.values()
    assert known.ranks == (0, 1, 2, 3)


def test_calls_that_differ_between_two_jobs_are_seen_on_both_boards(tmp_path: Path, rings: LocalRings) -> None:
    jobs = _Jobs(tmp_path)
    jobs.meet(rings)
    (job,) = rings.jobs()
    for rank in range(2):
        jobs.parents[rank].begin_collective(jobs.of_parents[rank], _BCAST, 0, depth=1)
        jobs.spawned[rank].begin_collective(jobs.of_spawned[rank], _BARRIER, depth=1)
    assert differing_positions(tmp_path, job.worlds) == []  # each board by itself is in line
    assert differing_positions(tmp_path, job.worlds, job.rename) == [("parents.0.inter-2-bridge-ab-0", 1)]
    finding = Judge(rings, tmp_path).look() or Judge(rings, tmp_path).look()
    assert finding is not None
    assert (finding.kind, finding.field, finding.cause) == ("mismatch", "operation", "different-collectives")
    assert "ranks 0-1 of the spawned WORLD call Barrier" in finding.summary


def test_ranks_of_two_jobs_that_wait_for_each_other_are_found(tmp_path: Path, rings: LocalRings) -> None:
    jobs = _Jobs(tmp_path)
    jobs.meet(rings)
    for rank in range(2):
        parent, spawned = jobs.parents[rank], jobs.spawned[rank]
        parent.block(parent.begin_message(jobs.of_parents[rank].index, _RECV, peer=2 + rank, tag=3, depth=1))
        spawned.block(spawned.begin_message(jobs.of_spawned[rank].index, _RECV, peer=rank, tag=3, depth=1))
    judge = Judge(rings, tmp_path)
    found = [finding for finding in (judge.look() for _ in range(5)) if finding is not None]
    assert found
    assert (found[0].kind, found[0].cause) == ("deadlock", "receive-receive")
    assert "of the spawned WORLD" in found[0].summary
