"""Calls that nobody waits in are compared as well if hosts speak through a relay: one host speaks to the head here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.guard.hosts.linked_job import ALL_REDUCE, LinkedJob, LinkedRank, linked_job
from tests.guard.hosts.stretches.passed_findings import PassedFindings

from paceline.guard.hosts import host_messages, watching
from paceline.guard.hosts.known_hosts import KnownHost
from paceline.guard.hosts.stretches import passed_calls, told_stretches
from paceline.guard.hosts.tree import host_tree
from paceline.guard.shared_memory.operations import BY_NAME, DTYPE_CODES, REDUCTION_CODES

_NUM_WATCHERS = 3
_NUM = _NUM_WATCHERS + 1  # ranks: the head's host has one too
_SUM, _MAX = REDUCTION_CODES["SUM"], REDUCTION_CODES["MAX"]
_F4, _F8 = DTYPE_CODES["f4"], DTYPE_CODES["f8"]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkedJob]:
    monkeypatch.setattr(told_stretches, "TELL_SECONDS", 0.02)
    monkeypatch.setattr(host_tree, "MOST_DIRECT", 1)
    monkeypatch.setattr(watching, "_LAST_SECONDS", 0.0)
    with linked_job(tmp_path, _NUM_WATCHERS) as made:
        yield made


def _children(job: LinkedJob) -> list[KnownHost]:
    return [host for host in job.head._hosts.values() if host.parent is not None]


def _behind(job: LinkedJob) -> list[int]:
    """Return the ranks whose hosts speak through a relay; who came first is not certain."""
    return [number for number, watcher in enumerate(job.watchers, start=1) if watcher._link.address != watcher._home]


def _all_are_heard(job: LinkedJob) -> bool:
    """Say whether all ranks are seen, those of all hosts but two through a relay."""
    children = _children(job)
    are_behind = len(children) == len(_behind(job)) == _NUM - 2
    return are_behind and not any(host.is_lost for host in children) and job.num_seen() == _NUM


def _ranks(job: LinkedJob) -> list[LinkedRank]:
    ranks = [job.rank(number, size=_NUM) for number in range(_NUM)]
    job.until(lambda: _all_are_heard(job))
    return ranks


def _goes_on(ranks: list[LinkedRank], odd: int, found: PassedFindings) -> Callable[[], bool]:
    """Return what lets all ranks call a collective, one of them with another reduction, and looks for a finding."""

    def goes_on() -> bool:
        for number, rank in enumerate(ranks):
            begun = rank.recorder.begin_collective(
                rank.world, ALL_REDUCE, reduction=_MAX if number == odd else _SUM, dtype=_F4, num_bytes=4, depth=1
            )
            rank.recorder.unblock(begun)
        return found.look()

    return goes_on


@pytest.mark.parametrize("is_behind", [True, False])
def test_another_reduction_is_found_on_either_side_of_a_relay(
    is_behind: bool, job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, found, behind = _ranks(job), PassedFindings(job, monkeypatch), _behind(job)
    odd = next(number for number in range(1, _NUM) if (number in behind) is is_behind)
    job.until(_goes_on(ranks, odd, found))
    (finding,) = found.findings
    assert (finding.kind.value, finding.ranks, str(finding.field)) == ("mismatch", (odd,), "reduction")
    assert sorted(rank for group in finding.groups for rank in group.ranks) == list(range(_NUM))


@pytest.mark.parametrize("is_from_behind", [True, False])
def test_a_message_through_a_relay_that_does_not_fit_is_found(
    is_from_behind: bool, job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one host behind the relay to another, or from the head's own."""
    ranks, found, numbers = _ranks(job), PassedFindings(job, monkeypatch), itertools.count(1)
    source, target = _behind(job)
    source = source if is_from_behind else 0

    def goes_on() -> bool:
        nth = next(numbers)
        for number, name, peer, dtype in ((source, "Send", target, _F4), (target, "Recv", source, _F8)):
            recorder = ranks[number].recorder
            begun = recorder.begin_message(
                ranks[number].world.index, BY_NAME[name].code, peer=peer, tag=5, message_number=nth, dtype=dtype,
                num_bytes=32, depth=1,
            )  # fmt: skip
            recorder.unblock(begun)
        return found.look()

    job.until(goes_on)
    (finding,) = found.findings
    assert (finding.kind.value, finding.ranks) == ("message", tuple(sorted((source, target))))


def test_a_correct_job_behind_a_relay_is_asked_for_nothing(job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks, found, tellers = _ranks(job), PassedFindings(job, monkeypatch), list[int]()
    real = passed_calls.PassedCalls.take

    def take(self: passed_calls.PassedCalls, host: int, told: host_messages.Stretches) -> None:
        tellers.append(host)
        real(self, host, told)

    monkeypatch.setattr(passed_calls.PassedCalls, "take", take)
    call = _goes_on(ranks, -1, found)

    def all_have_told_often() -> bool:
        assert not call()
        return all(tellers.count(host.number) > 10 for host in _children(job))

    job.until(all_have_told_often)
    assert not found.recalls


def test_calls_are_compared_after_hosts_have_come_back_from_a_relay_that_left(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks, found = _ranks(job), PassedFindings(job, monkeypatch)
    (serving,) = [watcher for watcher in job.watchers if watcher._relay is not None]
    assert serving._relay is not None
    serving._relay.close()
    serving._relay = None
    job.until(lambda: all(host.is_lost for host in _children(job)))
    job.head._tree._asked.clear()  # the one direct host has served already: it is asked again
    job.until(lambda: _all_are_heard(job))
    odd = _behind(job)[0]
    job.until(_goes_on(ranks, odd, found))
    assert found.findings[0].ranks == (odd,)
