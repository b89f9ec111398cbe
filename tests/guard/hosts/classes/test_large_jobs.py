"""A large job over real sockets: watchers tell states, the head follows some ranks, and a finding names all ranks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from paceline.guard.hosts.classes import rank_table, told_states
from paceline.guard.hosts.classes.large_jobs import LargeJobs, early_ends
from paceline.guard.hosts.classes.reduced_job import ReducedJob
from paceline.guard.hosts.classes.state_digest import MOVES, state_digest
from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.host_messages import AlikeRanks, WorldReport
from paceline.guard.hosts.host_reports import HostReports
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.hosts.viewing import glances_asked
from paceline.guard.hosts.watching import Watching
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.gauges import Gauges, JobView
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.local_rings import LocalRings, rank_of
from paceline.guard.observe.rank_starts import LaunchedJob, StartedRank, StartNote
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.run.watched_run import _failures
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.finding_json import finding_from_json, finding_to_json
from paceline.guard.verdict.rank_names import WorldRank
from paceline.process.procfs import start_time
from paceline.report.live.live_view import live_lines, live_text
from paceline.report.text.finding_text import finding_as_text

ALL_REDUCE, BARRIER, BROADCAST = (BY_NAME[f"torch.{name}"].code for name in ("all_reduce", "barrier", "broadcast"))
NUM_HOSTS, RANKS_PER_HOST = 3, 5
NUM = NUM_HOSTS * RANKS_PER_HOST
DEADLINE = 100.0


@dataclass
class Rank:
    """A rank that writes its ring."""

    recorder: Recorder
    world: Communicator

    def call(self, operation: int, root: int = NOTHING) -> int:
        return self.recorder.begin_collective(self.world, operation, root, depth=1)

    def leave(self, number: int) -> None:
        self.recorder.unblock(number)


def make_rank(folder: Path, number: int, size: int = NUM, pid: int = 0) -> Rank:
    recorder = Recorder(folder, f"abc.0.{number}", rank=number, world_size=size)
    if pid:
        recorder.ring.words[layout.PID], recorder.ring.words[layout.START_TIME] = pid, start_time(pid)
    world = recorder.communicator("torch-world-1", "WORLD", range(size), number)
    assert world is not None
    return Rank(recorder, world)


def started_rank(folder: Path, job: LaunchedJob, pid: int) -> StartedRank:
    note = folder / f"start.{pid}"
    note.write_text(json.dumps({"began": start_time(pid)}) + "\n")
    return StartedRank(job, 3, False, StartNote(note), ProcessHandle(pid, start_time(pid)), kills_before=0)


@dataclass
class LargeJob:
    """A head, and watchers of three hosts. The processes of ranks sleep: this process writes their rings."""

    folders: list[Path]
    pids: list[int]
    head: HeadRings
    watchers: list[Watching]

    def ranks(self) -> list[Rank]:
        return [
            make_rank(self.folders[number // RANKS_PER_HOST], number, pid=self.pids[number % RANKS_PER_HOST])
            for number in range(NUM)
        ]

    def turn(self) -> None:
        for watcher in self.watchers:
            watcher.wait(0.0)
            watcher.look()

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, "it never came to that"
            self.turn()
            self.head.wait(0.002)

    def finding(self, judge: Judge) -> Finding:
        found: list[Finding] = []

        def looks() -> bool:
            finding = self.head.confirmed(judge.look)
            found.extend([finding] if finding is not None else [])
            return bool(found)

        self.until(looks)
        return found[0]

    def until_all_stand_still(self) -> None:
        """Let the head hear that no rank moves: a finding about some of them would call the others running."""
        self.until(lambda: self.head.jobs() and all(table._digests.all() for table in self.head._large.tables.values()))

    def followed(self) -> list[int]:
        return [rank for job in self.head.jobs() if isinstance(job, ReducedJob) for rank in job.followed]


@pytest.fixture
def pids() -> Iterator[list[int]]:
    processes = [subprocess.Popen(["sleep", "1000"]) for _ in range(RANKS_PER_HOST)]
    yield [process.pid for process in processes]
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pids: list[int]) -> Iterator[LargeJob]:
    monkeypatch.setattr(told_states, "LARGE", 4)
    folders = [tmp_path / f"n{number}" for number in range(NUM_HOSTS)]
    head_folder = tmp_path / "head"
    for folder in (*folders, head_folder):
        folder.mkdir()
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    head = HeadRings(head_folder, HeadLink(listening, secret), address)
    rings = [LocalRings(folder) for folder in folders]
    made = LargeJob(folders, pids, head, [Watching(each, [address], secret) for each in rings])
    real = HeadRings.wait

    def wait(self: HeadRings, seconds: float) -> None:
        made.turn()  # watchers look whenever the head waits for them
        real(self, min(seconds, 0.005))

    monkeypatch.setattr(HeadRings, "wait", wait)
    yield made
    for watcher in made.watchers:
        watcher.close()
    head.close()
    for each in rings:
        each.close()


def test_a_rank_that_calls_otherwise_is_named_among_all(job: LargeJob) -> None:
    for number, rank in enumerate(job.ranks()):
        rank.call(BARRIER if number == 7 else ALL_REDUCE)
    job.until_all_stand_still()
    finding = job.finding(Judge(job.head, job.head.folder))
    assert finding.ranks == (7,)
    others = tuple(number for number in range(NUM) if number != 7)
    assert [group.ranks for group in finding.groups] == [others, (7,)]
    assert finding.summary.startswith("rank 7 fell out of line: ranks 0-6, 8-14 call all_reduce")
    followed = job.followed()
    assert 7 in followed
    assert len(followed) < NUM
    assert finding_from_json(json.loads(json.dumps(finding_to_json(finding)))).groups == finding.groups


def test_a_rank_that_does_not_come_is_waited_for_and_nobody_is_named(job: LargeJob) -> None:
    ranks = job.ranks()
    for rank in ranks[:-1]:
        rank.call(ALL_REDUCE)
    judge = Judge(job.head, job.head.folder)
    job.until(lambda: len(job.followed()) >= 3)
    for _ in range(50):
        job.turn()
        job.head.wait(0.002)
        assert job.head.confirmed(judge.look) is None
    (found,) = job.head.jobs()
    rest = found.world_ranks[len(job.followed())]
    assert (rest.rank, rest.others) == (NUM - 1, ())
    ranks[-1].call(BROADCAST, 0)
    assert job.finding(judge).ranks == (NUM - 1,)


def test_ranks_that_go_on_are_not_judged_by_what_they_did_before(job: LargeJob) -> None:
    ranks = job.ranks()
    numbers = [rank.call(ALL_REDUCE) for rank in ranks[:8]]
    job.until(lambda: len(job.followed()) >= 3)
    for rank, number in zip(ranks, numbers, strict=False):
        rank.leave(number)
    for rank in ranks[8:]:
        rank.leave(rank.call(ALL_REDUCE))
    judge = Judge(job.head, job.head.folder)

    def all_move() -> bool:
        (found,) = job.head.jobs()
        return not any(state is not None and state.waits for state in found.snapshot(history=0).ranks)

    job.until(all_move)
    for number, rank in enumerate(ranks):
        rank.call(BARRIER if number == 9 else ALL_REDUCE)
    assert job.finding(judge).ranks == (9,)


def test_a_host_that_is_not_heard_of_may_do_anything(job: LargeJob) -> None:
    for rank in job.ranks():
        rank.call(ALL_REDUCE)
    job.until(lambda: len(job.followed()) >= 3 and not job.head.out_of_sight())
    table = job.head._large._tables["abc.0"]
    silent = list(job.head._hosts.values())[table.host_of(0)]
    job.watchers.pop(0).close()
    job.head._lose(silent)
    job.until(lambda: len(job.followed()) >= 3)  # ranks of other hosts, since the first ones may do anything
    assert min(job.followed()) >= RANKS_PER_HOST
    (found,) = job.head.jobs()
    found.snapshot(history=0)
    rest = found.world_ranks[len(job.followed())]
    assert (rest.rank, rest.others) == (0, ((1, RANKS_PER_HOST),))


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


def test_it_is_said_if_there_is_no_room_for_more_followed_ranks(job: LargeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = job.ranks()
    numbers = [rank.call(ALL_REDUCE) for rank in ranks]
    job.until(lambda: len(job.followed()) >= 3)
    assert job.head.problems() == []
    monkeypatch.setattr(rank_table, "MOST_FOLLOWED", len(job.followed()))
    for rank, number in zip(ranks, numbers, strict=True):
        rank.leave(number)
        rank.call(BARRIER if rank is ranks[-1] else ALL_REDUCE)
    job.until(lambda: job.head.jobs() and job.head.problems())
    (said,) = job.head.problems()
    assert "there is no room for more" in said


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


def test_very_many_ranks_and_hosts_are_counted(job: LargeJob) -> None:
    for number, rank in enumerate(job.ranks()):
        rank.call(BARRIER if number == 7 else ALL_REDUCE)
    finding = job.finding(Judge(job.head, job.head.folder))
    group = replace(finding.groups[0], ranks=tuple(range(102_399)), num_hosts=12_800)
    told = replace(finding, groups=(group, finding.groups[1]))
    assert "102,399 ranks on 12,800 hosts   all_reduce" in finding_as_text(told)
    text = json.dumps(finding_to_json(told))
    assert len(text) < 10_000
    assert finding_from_json(json.loads(text)).groups == told.groups


def test_rings_that_the_head_has_asked_for_are_in_every_report_of_everything(job: LargeJob) -> None:
    """A report may be lost without the head noticing: it asks for a rank once."""
    ranks = job.ranks()
    numbers = [rank.call(ALL_REDUCE) for rank in ranks]
    job.until(lambda: len(job.followed()) >= 3)
    followed = job.followed()
    for watcher in job.watchers:
        watcher._reports.tell_everything()
    for rank, number in zip(ranks, numbers, strict=True):
        rank.leave(number)
        rank.call(BARRIER)

    def waits_in_barrier(rank: int) -> bool:
        (found,) = job.head.jobs()
        assert isinstance(found, ReducedJob)
        state = found.snapshot(history=0).ranks[found.numbers[rank]]
        return state is not None and [each.call.operation for each in state.waiting] == ["torch.barrier"]

    job.until(lambda: all(map(waits_in_barrier, followed)))


def test_a_finding_of_another_job_keeps_its_ranks_beside_a_large_one(job: LargeJob) -> None:
    for number, rank in enumerate(job.ranks()):
        rank.call(BARRIER if number == 7 else ALL_REDUCE)
    finding = job.finding(Judge(job.head, job.head.folder))
    groups = (replace(finding.groups[0], ranks=(0, 1)), replace(finding.groups[1], ranks=(2,)))
    spawned = replace(finding, ranks=(2,), groups=groups, world_ranks={2: WorldRank(rank=0, world="spawned WORLD")})
    kept = job.head._with_hosts(spawned)
    assert (kept.ranks, [group.ranks for group in kept.groups]) == ((2,), [(0, 1), (2,)])
    assert kept.world_ranks == spawned.world_ranks


def test_a_rank_that_failed_is_named_by_its_rank(job: LargeJob, pids: list[int]) -> None:
    """Among the followed ones it has another number."""
    for rank in job.ranks():
        rank.call(ALL_REDUCE)
    job.until(lambda: len(job.followed()) >= 3)
    os.kill(pids[4], signal.SIGKILL)  # ranks 4, 9 and 14

    def failed() -> list[int]:
        return sorted(rank for rank, _ in _failures(job.head.jobs()))

    job.until(lambda: failed() == [4, 9, 14])


def test_a_view_shows_some_ranks_of_a_job_that_moves_and_nobody_is_followed_for_it(
    job: LargeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking at a job must not change how it is judged."""
    monkeypatch.setattr(glances_asked, "_ASK_SECONDS", 0.02)
    ranks = job.ranks()
    gauges = Gauges()
    seen: list[JobView] = []

    def has_seen() -> bool:
        for rank in ranks:
            rank.leave(rank.call(ALL_REDUCE))
        jobs = job.head.shown_jobs()
        gauges.sample(jobs)
        seen.extend(gauges.views(jobs))
        return bool(seen) and len(seen[-1].ranks) == 8 and all(rank.steps_per_second for rank in seen[-1].ranks)

    job.until(has_seen)
    view = seen[-1]
    assert (view.world_size, [rank.rank for rank in view.ranks]) == (NUM, list(range(0, NUM, 2)))
    assert all(rank.host for rank in view.ranks)
    assert job.followed() == []
    assert f"{NUM} ranks, 8 of them shown" in live_text([view])
    assert f"{NUM} ranks, 8 of them shown" in live_lines([view], columns=100, rows=20)[1]


def test_a_view_of_a_large_job_shows_the_ranks_that_are_followed(job: LargeJob) -> None:
    ranks = job.ranks()
    for rank in ranks[:-1]:
        rank.call(ALL_REDUCE)
    job.until(lambda: len(job.followed()) >= 3)
    gauges = Gauges()
    views: list[JobView] = []

    def all_wait() -> bool:
        jobs = job.head.shown_jobs()
        views.extend(gauges.views(jobs))
        waiting = [rank.rank for rank in views[-1].ranks if rank.call == "all_reduce"]
        return {*job.followed()} <= {*waiting} and any(rank.seconds > 1.0 for rank in views[-1].ranks)

    job.until(all_wait)
    assert {rank.rank for rank in views[-1].ranks} >= {0, 2, 4, 6, 8, 10, 12, *job.followed()}
    assert f"s in all_reduce at {views[-1].ranks[0].site}" in live_text(views[-1:])
    assert views[-1].waited_for == ()  # the one that has not come is not followed, and nothing is known of it
