"""What hosts tell of the ranks of a large job: states as numbers, rings on demand, and what the head refuses of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.guard.hosts.classes import large_job
from tests.guard.hosts.classes.large_job import ALL_REDUCE, BARRIER, BROADCAST, DEADLINE, Rank, make_rank

from paceline.guard.hosts.classes import told_states
from paceline.guard.hosts.classes.large_jobs import LargeJobs, early_ends
from paceline.guard.hosts.classes.state_digest import MOVES, state_digest
from paceline.guard.hosts.host_messages import AlikeRanks, WorldReport
from paceline.guard.hosts.host_reports import HostReports
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.local_rings import LocalRings, rank_of
from paceline.guard.observe.rank_starts import LaunchedJob, StartedRank, StartNote
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.shared_memory import layout
from paceline.process.procfs import start_time

pids = large_job.pids  # a fixture


def started_rank(folder: Path, job: LaunchedJob, pid: int) -> StartedRank:
    note = folder / f"start.{pid}"
    note.write_text(json.dumps({"began": start_time(pid)}) + "\n")
    return StartedRank(job, 3, False, StartNote(note), ProcessHandle(pid, start_time(pid)), kills_before=0)


def wait_for(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not is_so():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.001)


def digest(tmp_path: Path, number: int, act: Callable[[Rank], object]) -> int | None:
    rank = make_rank(tmp_path, number, 1000)
    act(rank)
    reader = RingReader(tmp_path / f"ring.abc.0.{number}")
    found = state_digest(reader, has_ended=False)
    reader.close()
    return found


def test_states_are_told_and_rings_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pids: list[int]) -> None:
    monkeypatch.setattr("paceline.guard.hosts.host_reports._STILL_SECONDS", 0.0)
    ranks = [make_rank(tmp_path, number, 1000, pid) for number, pid in enumerate(pids[:4])]
    rings = LocalRings(tmp_path)
    reports = HostReports(rings)
    rings.jobs()
    first = reports.look()
    assert first is not None
    assert (first.rings, first.worlds) == ([], [WorldReport("abc.0", 1000, [AlikeRanks(MOVES, [(0, 4, 1)])])])
    numbers = [rank.call(ALL_REDUCE) for rank in ranks]
    rings.jobs()
    still = reports.look()
    assert still is not None
    ((alike,),) = [world.alike for world in still.worlds]
    assert alike.ranks == [(0, 4, 1)]
    assert alike.digest != MOVES
    assert reports.look() is None
    reports.follow("abc.0", [2])
    more = reports.look()
    assert more is not None
    assert ([ring.names for ring in more.rings], more.worlds) == ([["ring.abc.0.2"]], [])
    ranks[1].leave(numbers[1])
    moved = reports.look()
    assert moved is not None
    assert moved.worlds == [WorldReport("abc.0", 1000, [AlikeRanks(MOVES, [(1, 2, 1)])])]
    rings.close()


def test_of_failed_ranks_those_that_ended_first_are_told_by_their_rings(tmp_path: Path, pids: list[int]) -> None:
    ranks = [make_rank(tmp_path, number, 1000, pid) for number, pid in enumerate(pids)]
    rings = LocalRings(tmp_path)
    rings.jobs()
    processes = {rank_of(held).process.pid: rank_of(held).process for held in rings.held_rings()}
    for pid in reversed(pids[: len(ranks)]):
        os.kill(pid, signal.SIGKILL)
        wait_for(processes[pid].has_ended)
    report = HostReports(rings).look()
    assert report is not None
    assert sorted(ring.pid for ring in report.rings) == sorted(pids[-told_states.MOST_FAILED :])
    rings.close()


def test_of_ranks_that_ended_early_those_that_ended_first_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pids: list[int]
) -> None:
    started = [started_rank(tmp_path, LaunchedJob("MPICH", 1000, ()), pid) for pid in pids]
    for number, one in enumerate(reversed(started), start=1):
        one.process.note_end(number)
    rings = LocalRings(tmp_path)
    monkeypatch.setattr(rings, "started", lambda: [(one, True) for one in started])
    report = HostReports(rings).look()
    assert report is not None
    assert sorted(note.pid for note in report.notes) == sorted(pids[-told_states.MOST_FAILED :])
    rings.close()


def test_equal_states_have_one_number_and_others_have_another(tmp_path: Path) -> None:
    def twice(rank: Rank) -> None:
        rank.leave(rank.call(ALL_REDUCE))
        rank.call(ALL_REDUCE)

    calls: list[Callable[[Rank], object]] = [
        lambda rank: rank.call(ALL_REDUCE),
        lambda rank: rank.call(BARRIER),
        lambda rank: rank.call(BROADCAST, 1),
        twice,
    ]
    first, second = ([digest(tmp_path, 10 * turn + number, act) for number, act in enumerate(calls)] for turn in (0, 1))
    assert first == second
    assert len(set(first)) == len(calls)
    assert None not in first


def test_a_rank_with_messages_is_told_of_by_its_ring(tmp_path: Path) -> None:
    def sends(rank: Rank) -> None:
        rank.recorder.messages.count(rank.world, layout.SENT, 1, 0)
        rank.call(ALL_REDUCE)

    assert digest(tmp_path, 0, sends) is None


def test_early_ends_are_given_to_no_job_if_they_may_be_of_another(tmp_path: Path, pids: list[int]) -> None:
    launched = [LaunchedJob("MPICH", size, (name,)) for size, name in ((1000, "a"), (2000, "b"), (2000, "c"))]
    early = {one: {3: started_rank(tmp_path, one, pids[0])} for one in launched}
    assert early_ends(1000, early) == early[launched[0]]
    assert early_ends(2000, early) == {}
    assert early_ends(3000, early) == {}


def test_reports_that_do_not_fit_the_job_are_refused() -> None:
    jobs = LargeJobs()
    jobs.take(0, WorldReport("abc.0", 1000, [AlikeRanks(1, [(0, 8, 1)])]))
    with pytest.raises(ValueError, match="1000"):
        jobs.take(1, WorldReport("abc.0", 2000, [AlikeRanks(1, [(8, 16, 1)])]))
    with pytest.raises(ValueError, match="does not have"):
        jobs.take(1, WorldReport("abc.0", 1000, [AlikeRanks(1, [(8, 1016, 1)])]))


def test_a_host_that_tells_of_too_many_ranks_or_jobs_is_refused() -> None:
    jobs = LargeJobs()
    with pytest.raises(ValueError, match="more than 1024 ranks"):
        jobs.take(0, WorldReport("a.0", 2000, [AlikeRanks(1, [(0, 1000, 1)]), AlikeRanks(2, [(1000, 1025, 1)])]))
    for number in range(16):
        jobs.take(0, WorldReport(f"a.{number}", 1 << 20, [AlikeRanks(1, [(0, 8, 1)])]))
    with pytest.raises(ValueError, match="no room for another job of 300 ranks"):
        jobs.take(0, WorldReport("a.16", 300, [AlikeRanks(1, [(0, 8, 1)])]))
