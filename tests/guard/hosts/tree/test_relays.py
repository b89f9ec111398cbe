"""More hosts than speak to the head: some are relays. Real watchers over real sockets, with one direct host."""

from __future__ import annotations

import errno
import time

import pytest
import zmq
from tests.guard.hosts.classes import large_job as large

from paceline.guard.hosts import watching
from paceline.guard.hosts.host_messages import AlikeRanks, Beat, MoveTo, Report, WorldReport
from paceline.guard.hosts.known_hosts import KnownHost
from paceline.guard.hosts.tree import host_tree
from paceline.guard.hosts.viewing import glances_asked
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.gauges import Gauges

job, pids = large.job, large.pids  # fixtures


@pytest.fixture(autouse=True)
def one_direct_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_tree, "MOST_DIRECT", 1)


def relays(job: large.LargeJob) -> list[KnownHost]:
    return [host for host in job.head._hosts.values() if host.address]


def children(job: large.LargeJob) -> list[KnownHost]:
    return [host for host in job.head._hosts.values() if host.parent is not None]


def all_are_heard(job: large.LargeJob) -> bool:
    return len(children(job)) == large.NUM_HOSTS - 1 and not any(host.is_lost for host in children(job))


def test_hosts_behind_a_relay_are_judged_as_all_others(job: large.LargeJob) -> None:
    for number, rank in enumerate(job.ranks()):
        rank.call(large.BARRIER if number == 7 else large.ALL_REDUCE)
    job.until_all_stand_still()
    finding = job.finding(Judge(job.head, job.head.folder))
    assert finding.ranks == (7,)
    others = tuple(number for number in range(large.NUM) if number != 7)
    assert [group.ranks for group in finding.groups] == [others, (7,)]
    assert len(relays(job)) == 1
    assert len(children(job)) == large.NUM_HOSTS - 1
    assert set(job.head._tree.direct) == {host.link for host in job.head._hosts.values() if host.parent is None}


def test_ranks_behind_a_relay_that_go_on_are_not_judged_by_what_they_did_before(job: large.LargeJob) -> None:
    ranks = job.ranks()
    numbers = [rank.call(large.ALL_REDUCE) for rank in ranks]
    job.until(lambda: len(job.followed()) >= 3 and not job.head.out_of_sight())
    for rank, number in zip(ranks, numbers, strict=True):
        rank.leave(number)
    judge = Judge(job.head, job.head.folder)

    def all_move() -> bool:
        (found,) = job.head.jobs()
        return not any(state is not None and state.waits for state in found.snapshot(history=0).ranks)

    job.until(all_move)
    for number, rank in enumerate(ranks):
        rank.call(large.BARRIER if number == 9 else large.ALL_REDUCE)
    assert job.finding(judge).ranks == (9,)


def test_hosts_come_back_from_a_relay_that_has_left(job: large.LargeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_LAST_SECONDS", 0.0)
    ranks = job.ranks()
    for rank in ranks:
        rank.call(large.ALL_REDUCE)
    job.until(lambda: all_are_heard(job))
    (relay,) = relays(job)
    (serving,) = [watcher for watcher in job.watchers if watcher._relay is not None]
    assert serving._relay is not None
    serving._relay.close()
    serving._relay = None
    job.until(lambda: relay.has_left)
    assert all(host.is_lost for host in children(job))
    # the one direct host serves already, so the next one would be another: here it is asked again
    job.head._tree._asked.clear()
    job.until(lambda: len(relays(job)) == 2 and all_are_heard(job))
    assert {host.parent for host in children(job)} == {relays(job)[1]}


def test_a_host_behind_a_relay_goes_back_to_the_head_that_it_knows(job: large.LargeJob) -> None:
    """Its relay asks who it is in the name of the head: without a name, the host would take the head for another."""
    for rank in job.ranks():
        rank.call(large.ALL_REDUCE)
    job.until(lambda: all_are_heard(job) and all(watcher.was_known for watcher in job.watchers))
    assert {watcher._head for watcher in job.watchers} == {job.head._name}
    moved = next(watcher for watcher in job.watchers if watcher._link.address != watcher._home)
    host = job.head._hosts[moved._name]
    moved._speak_to(moved._home)
    host.placed_at = time.monotonic()  # it is sent to the same relay once more
    job.until(lambda: moved._link.address != moved._home and moved._is_known)
    assert moved._head == job.head._name


def test_a_relay_stays_with_its_head(job: large.LargeJob) -> None:
    for rank in job.ranks():
        rank.call(large.ALL_REDUCE)
    job.until(lambda: all_are_heard(job))
    (relay,) = [watcher._relay for watcher in job.watchers if watcher._relay is not None]
    relay._hear_head(Beat(sent_ns=1, number=-1, head="of another run"))
    assert relay._is_known
    assert relay._head == job.head._name


def test_a_host_that_its_relay_does_not_hear_may_do_anything(job: large.LargeJob) -> None:
    for rank in job.ranks():
        rank.call(large.ALL_REDUCE)
    job.until(lambda: all_are_heard(job))
    (serving,) = [watcher for watcher in job.watchers if watcher._relay is not None]
    silent = next(watcher for watcher in job.watchers if watcher is not serving)
    host = job.head._hosts[silent._name]
    assert serving._relay is not None
    serving._relay._heard[silent._name] = time.monotonic() - 1000
    job.watchers.remove(silent)
    job.until(lambda: host.is_lost)
    assert any(text.startswith(f"{host.name} does not report") for text in job.head.problems())
    table = job.head._large._tables["abc.0"]
    own = [rank for rank in range(large.NUM) if table.host_of(rank) == host.number]
    assert len(own) == large.RANKS_PER_HOST
    assert {int(table._digests[rank]) for rank in own} == {0}
    job.watchers.append(silent)
    job.until(lambda: not host.is_lost and 0 not in {int(table._digests[rank]) for rank in own})


def test_a_host_behind_a_relay_that_lies_costs_the_other_hosts_there_nothing(
    job: large.LargeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named, and not its relay; it is believed again once it has told everything anew."""
    for rank in job.ranks():
        rank.call(large.ALL_REDUCE)
    job.until(lambda: all_are_heard(job))
    (relay,) = relays(job)
    moved = [watcher for watcher in job.watchers if watcher._link.address != watcher._home]
    liar, honest = (job.head._hosts[watcher._name] for watcher in moved)
    monkeypatch.setattr(liar, "name", "liar")
    look, lies = moved[0]._reports.look, [True]

    def lie() -> Report | None:
        report = look()
        if report is None or not report.is_whole or not lies:
            return report
        lies.clear()
        too_many = WorldReport("abc.0", large.NUM, [AlikeRanks(1, [(0, 999, 1)])])
        return Report(report.number, True, [], [], [], [too_many])

    monkeypatch.setattr(moved[0]._reports, "look", lie)
    moved[0]._reports.tell_everything()
    job.until(lambda: any("cannot be used" in text for text in job.head.problems()))
    assert [text.partition(" ")[0] for text in job.head.problems()] == ["liar"]
    assert liar.is_lost
    assert not honest.is_lost
    assert not relay.is_lost
    job.until(lambda: not liar.is_lost)
    job.until(lambda: len(set(job.head._large._tables["abc.0"]._digests.tolist())) == 1)


def test_states_of_a_host_that_is_not_believed_count_for_nothing(job: large.LargeJob) -> None:
    """Its relay may know nothing of that yet, and pass on what has changed since."""
    for rank in job.ranks():
        rank.call(large.ALL_REDUCE)
    job.until(lambda: all_are_heard(job))
    table = job.head._large._tables["abc.0"]
    (relay,), child = relays(job), children(job)[0]
    own = [rank for rank in range(large.NUM) if table.host_of(rank) == child.number]
    job.head._refuse(child, "what it says cannot be used")
    every = [(0, large.NUM, 1)]
    job.head._large.take_relayed(relay.number, WorldReport("abc.0", large.NUM, [AlikeRanks(5, every)]))
    assert {int(table._digests[rank]) for rank in own} == {0}
    job.until(lambda: 0 not in {int(table._digests[rank]) for rank in own})


def test_hosts_leave_a_relay_that_does_not_hear_of_the_head(job: large.LargeJob) -> None:
    """It cannot answer for the head: ranks that have stopped would wait for a word that never comes."""
    for rank in job.ranks():
        rank.call(large.ALL_REDUCE)
    job.until(lambda: all_are_heard(job) and all(watcher.was_known for watcher in job.watchers))
    (serving,) = [watcher for watcher in job.watchers if watcher._relay is not None]
    (relay,) = relays(job)
    assert serving._relay is not None
    serving._relay._up._socket.disconnect(f"tcp://{serving._home}")  # the network to the head has gone
    behind = [watcher for watcher in job.watchers if watcher is not serving]
    job.until(lambda: relay.is_lost)
    job.until(lambda: all(watcher._link.address == watcher._home for watcher in behind))
    assert not any(watcher.was_heard_within(2.0) for watcher in behind)
    assert serving.was_heard_within(2.0)


def test_a_host_that_cannot_be_a_relay_stays_a_host(job: large.LargeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise zmq.ZMQError(errno.EMFILE)

    monkeypatch.setattr(watching, "Relay", fail)
    monkeypatch.setattr(watching, "WatcherLink", fail)
    for watcher in job.watchers:
        watcher._serve()
        watcher._speak_to("127.0.0.1:1")
    job.until(lambda: any(watcher.was_known for watcher in job.watchers))  # whoever came first: the others need a relay


def test_a_host_that_is_sent_to_a_relay_is_none_itself(job: large.LargeJob) -> None:
    """A head that was started again may send it there, and its own clock must not be what it is compared with."""
    for rank in job.ranks():
        rank.call(large.ALL_REDUCE)
    job.until(lambda: all_are_heard(job))
    (relay,) = relays(job)
    (serving,) = [watcher for watcher in job.watchers if watcher._relay is not None]
    serving._hear(MoveTo(relay.address))
    assert serving._relay is None
    job.until(lambda: relay.has_left)
    job.until(lambda: all(watcher._link.address == watcher._home for watcher in job.watchers))


def test_ranks_behind_a_relay_are_shown_as_they_move(job: large.LargeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glances_asked, "_ASK_SECONDS", 0.02)
    ranks = job.ranks()
    job.until(lambda: all_are_heard(job))
    gauges = Gauges()

    def are_shown() -> bool:
        for rank in ranks:
            rank.leave(rank.call(large.ALL_REDUCE))
        views = gauges.views(job.head.shown_jobs())
        return any([rank.rank for rank in view.ranks if rank.steps_per_second] == [*range(0, 15, 2)] for view in views)

    job.until(are_shown)
