"""A head that is killed and started again in the folder of its run: hosts know it, and tell it everything."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.guard.hosts.classes import large_job as large

from paceline.guard.hosts.classes import told_states
from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.hosts.tree import host_tree
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.local_rings import LocalRings

job, pids = large.job, large.pids  # fixtures


def _is_judged(job: large.LargeJob) -> bool:
    """Say whether the head has seen all ranks."""
    return bool(job.head.jobs()) and not job.head.out_of_sight() and all(watcher._is_known for watcher in job.watchers)


def _start_again(job: large.LargeJob) -> HeadRings:
    """Let go of the head as the kernel would, without a word, and start another."""
    killed = job.head
    killed._link.close()
    LocalRings.close(killed)
    host, _, port = killed.address.rpartition(":")
    secret = job.watchers[0]._secret
    job.head = HeadRings(killed.folder, HeadLink(listen(host, int(port)), secret), killed.address)
    return killed


@pytest.fixture
def last_head(job: large.LargeJob) -> Iterator[None]:
    """Close the head that was started last; the fixture of the job closes the first one, whose link is closed."""
    first = job.head
    yield
    if job.head is not first:
        job.head.close()
        first.close = lambda: None  # type: ignore[method-assign]


@pytest.mark.usefixtures("last_head")
@pytest.mark.parametrize("kind", ["states", "rings", "relays"])
def test_a_head_that_is_started_again_judges_all_hosts(
    job: large.LargeJob, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "rings":
        monkeypatch.setattr(told_states, "LARGE", 256)
    if kind == "relays":
        monkeypatch.setattr(host_tree, "MOST_DIRECT", 1)
    ranks = job.ranks()
    for rank in ranks[:-1]:
        rank.call(large.ALL_REDUCE)
    job.until(lambda: _is_judged(job))
    heads = {watcher._head for watcher in job.watchers}
    killed = _start_again(job)
    ranks[-1].call(large.BARRIER)
    finding = job.finding(Judge(job.head, job.head.folder))
    assert finding.ranks == (large.NUM - 1,)
    assert {rank for group in finding.groups for rank in group.ranks} == set(range(large.NUM))
    assert heads == {killed._name} == {job.head._name}
    job.until(lambda: len(job.head._hosts) - len(job.head._tree._relays) == large.NUM_HOSTS)
