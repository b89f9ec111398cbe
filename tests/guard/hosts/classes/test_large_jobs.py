"""A large job over real sockets: watchers tell states, the head follows some ranks, and a finding names all ranks."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import pytest
from tests.guard.hosts.classes import large_job
from tests.guard.hosts.classes.large_job import ALL_REDUCE, BARRIER, BROADCAST, NUM, RANKS_PER_HOST, LargeJob

from paceline.guard.hosts.classes import rank_table
from paceline.guard.hosts.classes.reduced_job import ReducedJob
from paceline.guard.hosts.viewing import glances_asked
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.gauges import Gauges, JobView
from paceline.guard.run.watched_run import _failures
from paceline.guard.verdict.finding_json import finding_from_json, finding_to_json
from paceline.guard.verdict.rank_names import WorldRank
from paceline.report.live.live_view import live_lines, live_text
from paceline.report.text.finding_text import finding_as_text

job, pids = large_job.job, large_job.pids  # fixtures


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
