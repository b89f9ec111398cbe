"""Head and watchers over real sockets in one process: who gets in, what is taken in, and what the judge then sees."""

from __future__ import annotations

import errno
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zmq

from paceline.guard.hosts import host_messages, known_hosts
from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, WatcherLink, listen
from paceline.guard.hosts.watching import Watching
from paceline.guard.judge.judge import Judge
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.run import watched_run
from paceline.guard.run.held_output import HeldOutput
from paceline.guard.run.judged_run import JudgedRun
from paceline.guard.run.stopping_job import ForwardedSignals
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.verdict.finding import Finding
from paceline.process.procfs import start_time

_ALL_REDUCE, _BARRIER = BY_NAME["torch.all_reduce"].code, BY_NAME["torch.barrier"].code
_DEADLINE = 100.0
_WORLD = "abc"  # as a hash is written


def _has_ipv6() -> bool:
    try:
        listen("::1").close()
    except OSError:
        return False
    return True


@dataclass
class _Rank:
    recorder: Recorder
    world: Communicator

    def call(self, operation: int) -> int:
        return self.recorder.begin_collective(self.world, operation, depth=1)


@dataclass
class _Job:
    """A head and two watchers; each has a rank of its own, and all ranks are this process."""

    folders: list[Path]
    secret: bytes
    head: HeadRings
    rings: list[LocalRings]
    watchers: list[Watching]

    def rank(self, number: int, *, size: int = 3) -> _Rank:
        recorder = Recorder(self.folders[number], f"{_WORLD}.0.{number}", rank=number, world_size=size)
        world = recorder.communicator("torch-world-1", "WORLD", range(size), number)
        assert world is not None
        return _Rank(recorder, world)

    def turn(self) -> None:
        """Let everybody look once."""
        for watcher in self.watchers:
            watcher.wait(0.002)
            watcher.look()
        self.head.wait(0.002)
        self.head.jobs()

    def until(self, is_so: Callable[[], object]) -> None:
        """Go on until something is so."""
        deadline = time.monotonic() + _DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, "it never came to that"
            self.turn()

    def num_seen(self) -> int:
        return sum(len(job.ranks) for job in self.head.jobs())


@pytest.fixture
def job(tmp_path: Path) -> Iterator[_Job]:
    folders = [tmp_path / name for name in ("head", "first", "second")]
    for folder in folders:
        folder.mkdir()
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    head = HeadRings(folders[0], HeadLink(listening, secret), address)
    rings = [LocalRings(folder) for folder in folders[1:]]
    watchers = [Watching(each, [address], secret) for each in rings]
    yield _Job(folders, secret, head, rings, watchers)
    for watcher in watchers:
        watcher.close()
    head.close()
    for each in rings:
        each.close()


def _settled(job: _Job, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> Finding:
    """Return what the head finds; watchers look whenever the head waits for them."""
    real = HeadRings.wait

    def wait(self: HeadRings, seconds: float) -> None:
        for watcher in job.watchers:
            watcher.wait(0.0)
            watcher.look()
        real(self, min(seconds, 0.005))

    monkeypatch.setattr(HeadRings, "wait", wait)
    found: list[Finding] = []

    def looks() -> bool:
        finding = job.head.confirmed(judge.look)
        found.extend([finding] if finding is not None else [])
        return bool(found)

    job.until(looks)
    return found[0]


def test_ranks_of_other_hosts_are_seen_with_their_calls(job: _Job) -> None:
    ranks = [job.rank(number) for number in range(3)]
    for rank in ranks:
        rank.call(_ALL_REDUCE)
    job.until(lambda: job.num_seen() == 3)

    def waiting() -> list[str]:
        (found,) = job.head.jobs()
        states = found.snapshot(history=10).ranks
        return [state.history[-1].operation for state in states if state is not None and state.waits]

    job.until(lambda: waiting() == ["torch.all_reduce"] * 3)
    (found,) = job.head.jobs()
    assert [held.process.host for held in found.ranks.values()].count(socket.gethostname()) == 2
    assert job.head.out_of_sight() == []


def test_a_call_that_differs_on_another_host_is_found(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        job.rank(number).call(_BARRIER if number == 2 else _ALL_REDUCE)
    finding = _settled(job, Judge(job.head, job.folders[0]), monkeypatch)
    assert finding.ranks == (2,)
    groups = [group.ranks for group in finding.groups if group.hosts]
    assert (2,) in groups
    assert sorted(itertools.chain.from_iterable(groups)) == [0, 1, 2]  # one may still be on its way into the call


def test_nothing_is_found_while_a_rank_moves(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its watcher says no, each time that the head asks."""
    for number in range(3):
        job.rank(number).call(_BARRIER if number == 2 else _ALL_REDUCE)
    job.until(lambda: job.num_seen() == 3)
    judge = Judge(job.head, job.folders[0])
    reports = job.watchers[1]._reports
    monkeypatch.setattr(reports.marks, "is_same", lambda number, marks: False)
    asked = [job.head._taken.question]
    real = HeadRings.wait

    def wait(self: HeadRings, seconds: float) -> None:
        for watcher in job.watchers:
            watcher.wait(0.0)
            watcher.look()
        real(self, min(seconds, 0.005))

    monkeypatch.setattr(HeadRings, "wait", wait)

    def has_asked_thrice() -> bool:
        assert job.head.confirmed(judge.look) is None
        asked.append(job.head._taken.question)
        return asked[-1] >= asked[0] + 3

    job.until(has_asked_thrice)


def test_a_rank_that_moves_again_runs_for_the_head(job: _Job) -> None:
    rank = job.rank(1)
    number = rank.call(_ALL_REDUCE)

    def waits() -> bool:
        return any(
            state is not None and state.waits for each in job.head.jobs() for state in each.snapshot(history=0).ranks
        )

    job.until(waits)
    rank.recorder.unblock(number)
    job.until(lambda: not waits())


def test_a_report_that_was_lost_is_told_again(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.until(lambda: len(job.head._hosts) == 2)
    lost: list[object] = []
    real = WatcherLink.send

    def send(self: WatcherLink, content: bytes) -> bool:
        if isinstance(host_messages.decode_upward(content), host_messages.Report) and len(lost) < 3:
            lost.append(content)
            return True
        return real(self, content)

    monkeypatch.setattr(WatcherLink, "send", send)
    job.rank(1)
    job.rank(2)
    job.until(lambda: job.num_seen() == 2)
    assert lost


def test_a_host_that_is_not_heard_of_may_do_anything(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        job.rank(number).call(_BARRIER if number == 2 else _ALL_REDUCE)
    job.until(lambda: job.num_seen() == 3)
    monkeypatch.setattr(known_hosts, "_SILENT_SECONDS", 0.2)
    silent = job.watchers.pop()
    job.until(lambda: job.num_seen() == 2)
    ((unseen),) = job.head.out_of_sight()
    assert len(unseen.ranks) == 1
    assert any("does not report" in problem for problem in job.head.problems())
    monkeypatch.setattr(known_hosts, "_SILENT_SECONDS", 60.0)
    job.watchers.append(silent)
    job.until(lambda: job.num_seen() == 3)  # it is heard of again, and has told everything


def test_a_rank_that_stopped_goes_on_when_the_judge_says_so(job: _Job) -> None:
    rank = job.rank(1)
    ring = rank.recorder.ring
    rank.call(_ALL_REDUCE)
    ring.words[layout.STOP_REASON], ring.words[layout.STOPPED] = layout.STOP_COLLECTIVE, 1
    job.until(lambda: any(mark[layout.STOPPED] for each in job.head.jobs() for mark in each.marks().values()))
    (found,) = job.head.jobs()
    found.let_go_on(1)
    job.until(lambda: ring.words[layout.GO_ON] == 1)


def test_a_rank_that_stopped_goes_on_without_a_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.guard.hosts.watching._ANSWER_SECONDS", 0.05)
    recorder = Recorder(tmp_path, f"{_WORLD}.0.0", rank=0, world_size=2)
    recorder.ring.words[layout.STOPPED] = 1
    rings = LocalRings(tmp_path)
    watching = Watching(rings, ["127.0.0.1:1"], new_secret())  # nobody listens there
    deadline = time.monotonic() + _DEADLINE
    while recorder.ring.words[layout.GO_ON] != 1:
        assert time.monotonic() < deadline
        watching.wait(0.01)
        watching.look()
    watching.close()
    rings.close()


def test_strangers_do_not_get_in(job: _Job) -> None:
    """Neither without a key, nor with another, nor with garbage; and they keep nobody else out."""
    address = job.head.address
    plain = zmq.Context()
    client = plain.socket(zmq.DEALER)
    client.setsockopt(zmq.LINGER, 0)
    client.connect(f"tcp://{address}")
    hello = host_messages.Hello(
        protocol=host_messages.PROTOCOL, version=host_messages.package_version(), host="stranger", identity="x"
    )
    client.send(host_messages.encode(hello))
    other = WatcherLink([address], new_secret(), b"other")
    host, _, port = address.rpartition(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(50)]
    idle[0].sendall(os.urandom(5000))
    job.until(lambda: len(job.head._hosts) == 2)
    for _ in range(50):
        other.send(host_messages.encode(hello))
        job.turn()
    assert {known.name for known in job.head._hosts.values()} == {socket.gethostname()}
    other.close()
    client.close(0)
    plain.term()
    for connection in idle:
        connection.close()


def test_what_a_watcher_should_not_say_harms_nobody(job: _Job) -> None:
    """Names that lead elsewhere, parts that do not fit, and bytes that are not of our language."""
    liar = WatcherLink([job.head.address], job.secret, b"liar")
    hello = host_messages.Hello(
        protocol=host_messages.PROTOCOL, version=host_messages.package_version(), host="liar", identity="l"
    )
    job.until(lambda: liar.send(host_messages.encode(hello)) and len(job.head._hosts) == 3)
    facts = host_messages.KernelFacts()
    rings = [
        host_messages.RingReport(pid=7, began=1, names=["../../escaped"], parts=b"", facts=facts),
        host_messages.RingReport(pid=8, began=1, names=["ring.abc.0.9"], parts=b"not compressed", facts=facts),
    ]
    for number, ring in enumerate(rings, start=1):
        report = host_messages.Report(number=number, is_whole=True, rings=[ring], notes=[], problems=[])
        liar.send(host_messages.encode(report))
    liar.send(b"\xc1\xff not a message")
    job.rank(1)
    job.until(lambda: len(job.head.problems()) >= 3 and job.num_seen() >= 1)
    assert not list(job.folders[0].parent.glob("**/escaped"))
    liar.close()


def test_another_version_is_refused_with_a_word(job: _Job) -> None:
    old = WatcherLink([job.head.address], job.secret, b"old")
    hello = host_messages.Hello(protocol=host_messages.PROTOCOL, version="0.0.1", host="n9", identity="o")
    job.until(lambda: old.send(host_messages.encode(hello)) and job.head.problems())
    assert job.head.problems()[0].startswith("n9 has Paceline 0.0.1")
    old.close()


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")
def test_head_and_watcher_meet_over_ipv6(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    secret, listening = new_secret(), listen("::1")
    address = f"[::1]:{listening.getsockname()[1]}"
    head = HeadRings(tmp_path, HeadLink(listening, secret), address)
    rings = LocalRings(tmp_path / "elsewhere")
    watching = Watching(rings, [address], secret)
    for close in (rings.close, head.close, watching.close):  # the last one first, also if they never meet
        request.addfinalizer(close)
    deadline = time.monotonic() + _DEADLINE
    while not watching.was_known:
        assert time.monotonic() < deadline
        watching.wait(0.01)
        watching.look()
        head.wait(0.01)


def test_a_host_for_whose_records_there_is_no_room_is_named_and_harms_nobody(
    job: _Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        job.rank(number).call(_BARRIER if number == 2 else _ALL_REDUCE)
    is_full = [True]
    real = os.posix_fallocate

    def reserve(descriptor: int, offset: int, length: int) -> None:
        if is_full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", reserve)
    job.until(lambda: any("is not watched, because" in problem for problem in job.head.problems()))
    assert job.num_seen() == 1
    assert len(list(job.folders[0].glob("ring.*"))) == 1
    is_full[0] = False
    job.until(lambda: job.num_seen() == 3)  # there is room again, and they have told everything


def test_what_other_hosts_say_never_ends_the_job_through_the_head(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: HeadRings) -> None:
        raise RuntimeError("nobody has thought of this")

    monkeypatch.setattr(HeadRings, "hear", fail)
    told: list[str] = []
    judged = JudgedRun(job.head, job.folders[0], WatchOptions(on_fault=told.append))
    judged.wait(0.01)
    judged.wait(0.01)
    assert len(told) == 1
    assert "nobody has thought of this" in told[0]


@pytest.fixture
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that answers at all does so many times within the time that a rank waits for its word."""
    monkeypatch.setattr("paceline.guard.hosts.watching._BEAT_SECONDS", 0.01)
    monkeypatch.setattr("paceline.guard.hosts.watching._ANSWER_SECONDS", 1.0)


def _stopped(job: _Job) -> memoryview:
    ring = job.rank(1).recorder.ring
    ring.words[layout.STOP_REASON], ring.words[layout.STOPPED] = layout.STOP_COLLECTIVE, 1
    return ring.words


@pytest.mark.usefixtures("short_times")
def test_a_rank_that_stopped_goes_on_if_the_head_does_not_know_its_host(
    job: _Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers, as it does to hosts with another version, and takes nothing in."""
    monkeypatch.setattr(HeadRings, "_welcome", lambda self, link, hello: None)
    words = _stopped(job)
    job.until(lambda: words[layout.GO_ON] == 1)


@pytest.mark.usefixtures("short_times")
def test_a_rank_that_stopped_goes_on_after_a_fault_of_the_judge(job: _Job) -> None:
    words = _stopped(job)
    job.until(lambda: job.num_seen() == 1)
    judged = JudgedRun(job.head, job.folders[0], WatchOptions())
    assert judged.unless_at_fault(lambda: 1 // 0) is None
    job.until(lambda: words[layout.GO_ON] == 1)
    assert job.head.processes_to_end() == []  # nobody hears whether they have ended


def test_one_look_asks_hosts_once(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """New reports may come in meanwhile again and again: the next look asks again."""
    for number in range(3):
        job.rank(number).call(_BARRIER if number == 2 else _ALL_REDUCE)
    finding = _settled(job, Judge(job.head, job.folders[0]), monkeypatch)
    asked: list[int] = []

    def settle(self: HeadRings) -> bool:
        asked.append(1)
        self._settled = {b"of a report that is not the last": 1}
        return True

    monkeypatch.setattr(HeadRings, "_settle", settle)
    job.head._settled = None
    assert job.head.confirmed(lambda: finding) is None
    assert len(asked) == 1


@pytest.mark.parametrize("owns_hosts", [True, False])
def test_who_stops_the_head_waits_only_for_ranks_that_it_owns(
    owns_hosts: bool, job: _Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.rank(1)
    job.until(lambda: job.num_seen() == 1)
    job.head._owns_hosts = owns_hosts
    ended: list[str] = []
    end_host = HeadRings._end_host

    def note_end(head: HeadRings, host: Any) -> None:
        ended.append(host.name)
        end_host(head, host)

    monkeypatch.setattr(HeadRings, "_end_host", note_end)
    monkeypatch.setattr(watched_run, "end_all", lambda roots, *, also: None)
    monkeypatch.setattr("paceline.guard.hosts.head_rings._END_SECONDS", 0.2)  # nobody ends the rank
    watched_run._end_everywhere(job.head, None)
    assert set(ended) == ({socket.gethostname()} if owns_hosts else set())


def test_a_host_that_has_left_to_end_its_ranks_is_not_waited_for(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.rank(1)
    job.until(lambda: job.num_seen() == 1)
    job.head._owns_hosts = False
    waited: list[float] = []

    def leave(head: HeadRings, seconds: float) -> None:
        waited.append(seconds)
        for host in head._hosts.values():
            host.has_left = True

    monkeypatch.setattr(HeadRings, "wait", leave)
    job.head.end_elsewhere(after_launcher=False)
    assert len(waited) == 1


def test_who_stops_a_job_does_not_wait_for_last_words(job: _Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadRings, "hear_last_words", lambda self, *, failed: pytest.fail("it has waited"))
    options, signals = WatchOptions(), ForwardedSignals()
    signals.received = signal.SIGINT
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    launcher = ProcessHandle(process.pid, start_time(process.pid))
    process.wait()
    judged, held = JudgedRun(job.head, job.folders[0], options), HeldOutput(job.folders[0], None)
    assert watched_run._watch(process, launcher, job.head, judged, held, options, signals) is None
    assert judged.fault is None
    launcher.close()


def test_everybody_looks_who_lives_twice_and_not_for_each_of_many_ranks_that_end_together(
    job: _Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        job.rank(number)
    job.until(lambda: len(job.head._elsewhere) == 2)
    asked: list[bytes] = []
    real = HeadLink.send

    def send(self: HeadLink, watcher: bytes, content: bytes) -> bool:
        message = host_messages.decode_downward(content)
        if isinstance(message, host_messages.Ask) and not message.question:
            asked.append(watcher)
        return real(self, watcher, content)

    monkeypatch.setattr(HeadLink, "send", send)
    end = host_messages.EndFacts(at_ns=5, alive_ns=4, status=0, memory_kills=0)
    rings = [
        host_messages.RingReport(pid, 1, [f"ring.def.0.{pid}"], b"", host_messages.KernelFacts(), end)
        for pid in range(10, 40)
    ]
    other = WatcherLink([job.head.address], job.secret, b"many")
    hello = host_messages.Hello(host_messages.PROTOCOL, host_messages.package_version(), "many", "m")
    try:
        job.until(lambda: other.send(host_messages.encode(hello)) and len(job.head._hosts) == 3)
        other.send(host_messages.encode(host_messages.Report(1, True, rings, [], [])))
        job.until(lambda: len(job.head._elsewhere) == 32)
    finally:
        other.close()
    assert sorted(asked.count(watcher._name) for watcher in job.watchers) == [2, 2]


def test_a_connection_at_rest_carries_beats_and_nothing_else(job: _Job) -> None:
    """Heartbeats of the transport were a fifth of it. The kernel knows a dead connection by what it has sent."""
    for link in (job.head._link, job.watchers[0]._link):
        assert link._socket.getsockopt(zmq.HEARTBEAT_IVL) == 0
        assert link._socket.getsockopt(zmq.TCP_MAXRT) == 6000
