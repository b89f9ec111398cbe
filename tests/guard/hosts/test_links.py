"""Hosts with the key and the same version get in, and what nobody should send harms nobody."""

from __future__ import annotations

import errno
import os
import socket
import time
from pathlib import Path

import pytest
import zmq
from tests.guard.hosts.linked_job import ALL_REDUCE, BARRIER, DEADLINE, LinkedJob

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, WatcherLink, listen
from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.local_rings import LocalRings


def _has_ipv6() -> bool:
    try:
        listen("::1").close()
    except OSError:
        return False
    return True


def test_strangers_do_not_get_in(job: LinkedJob) -> None:
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


def test_what_a_watcher_should_not_say_harms_nobody(job: LinkedJob) -> None:
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


def test_another_version_is_refused_with_a_word(job: LinkedJob) -> None:
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
    deadline = time.monotonic() + DEADLINE
    while not watching.was_known:
        assert time.monotonic() < deadline
        watching.wait(0.01)
        watching.look()
        head.wait(0.01)


def test_a_host_for_whose_records_there_is_no_room_is_named_and_harms_nobody(
    job: LinkedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        job.rank(number).call(BARRIER if number == 2 else ALL_REDUCE)
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


def test_a_connection_at_rest_carries_beats_and_nothing_else(job: LinkedJob) -> None:
    """Heartbeats of the transport were a fifth of it. The kernel knows a dead connection by what it has sent."""
    for link in (job.head._link, job.watchers[0]._link):
        assert link._socket.getsockopt(zmq.HEARTBEAT_IVL) == 0
        assert link._socket.getsockopt(zmq.TCP_MAXRT) == 6000
