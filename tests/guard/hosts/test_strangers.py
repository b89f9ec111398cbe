"""What the head gets from those who should not be there, or say what is not so: it serves the others meanwhile."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.head_rings import HeadRings
from paceline.guard.hosts.host_messages import (
    MOST_BYTES,
    AlikeRanks,
    AlikeSums,
    KernelFacts,
    MessageReport,
    NoteReport,
    Report,
    RingReport,
    Stretches,
    StretchReport,
    WorldReport,
)
from paceline.guard.hosts.keys import new_secret
from paceline.guard.hosts.link import HeadLink, WatcherLink, listen
from paceline.guard.hosts.watching import Watching
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.call_recorder import Recorder

_DEADLINE = 100.0
_FACTS = KernelFacts()


@dataclass
class _Head:
    """A head, and a host that is as it should be: it has rank 0 of 2."""

    head: HeadRings
    secret: bytes
    host: Watching

    @property
    def place(self) -> tuple[str, int]:
        name, _, port = self.head.address.rpartition(":")
        return name, int(port)

    def turn(self) -> None:
        self.host.wait(0.002)
        self.host.look()
        self.head.wait(0.002)

    def until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + _DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, "it never came to that"
            self.turn()

    def seen(self) -> list[int]:
        return [rank for job in self.head.jobs() for rank in job.ranks]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[_Head]:
    for name in ("head", "host"):
        (tmp_path / name).mkdir()
    Recorder(tmp_path / "host", "abc.0.0", rank=0, world_size=2)
    secret, listening = new_secret(), listen("127.0.0.1")
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    with (
        closing(HeadRings(tmp_path / "head", HeadLink(listening, secret), address)) as head,
        closing(LocalRings(tmp_path / "host")) as rings,
        closing(Watching(rings, [address], secret)) as host,
    ):
        yield _Head(head, secret, host)


def test_connections_that_say_nothing_keep_nobody_out_and_are_closed(served: _Head) -> None:
    idle = [socket.create_connection(served.place) for _ in range(200)]
    served.until(lambda: served.seen() == [0])

    def is_closed(connection: socket.socket) -> bool:
        connection.setblocking(False)
        try:
            while connection.recv(4096):  # what the head says first
                pass
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        return True

    served.until(lambda: all(map(is_closed, idle)))
    for connection in idle:
        connection.close()
    assert served.head.problems() == []


def test_bytes_that_are_no_transport_are_answered_by_closing(served: _Head) -> None:
    for first in (b"GET / HTTP/1.1\r\n\r\n", bytes(64), b"\xff" * 5000, b"\xff\0\0\0\0\0\0\0\1\x7f\3" + b"NULL" * 20):
        with socket.create_connection(served.place) as stranger:
            stranger.sendall(first)
            served.until(lambda: served.host.was_known)
            stranger.settimeout(_DEADLINE)
            _read_to_end(stranger)
    served.until(lambda: served.seen() == [0])
    assert served.head.problems() == []


def _read_to_end(stranger: socket.socket) -> None:
    """Read until the other side closes, which the threads of the transport do."""
    try:
        while stranger.recv(4096):
            pass
    except ConnectionResetError:
        pass


def test_a_message_that_is_too_large_is_not_taken_in(served: _Head, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    real = host_messages.decode_upward

    def decode(content: bytes) -> host_messages.Upward | None:
        sizes.append(len(content))
        return real(content)

    monkeypatch.setattr(host_messages, "decode_upward", decode)
    large = WatcherLink([served.head.address], served.secret, b"large")
    marker = b"x" * 777
    try:
        served.until(lambda: large.send(bytes(MOST_BYTES + 1)))
        served.until(lambda: large.send(marker) and len(marker) in sizes)  # its connection was closed, and is new
    finally:
        large.close()
    served.until(lambda: served.seen() == [0])
    assert max(sizes) <= MOST_BYTES


@pytest.mark.parametrize(
    "lie",
    [
        Report(1, True, [RingReport(7, 1, ["ring.abc.0.0"], b"", _FACTS)], [], []),  # a rank that another host has
        Report(1, True, [RingReport(7, 1, [f"ring.abc.0.{n}"], b"", _FACTS) for n in range(64)], [], []),  # no content
        Report(1, True, [], [NoteReport(7, 1, b"[1, 2]")], []),
        Report(1, True, [], [NoteReport(7, 1, b'{"launcher": 3, "size": -4, "job": "x"}\n')], []),
        Report(1, True, [], [], [], [WorldReport("abcd.0", 4, [AlikeRanks(1, [(3, 9, 1)])])]),
        Report((1 << 63) - 1, False, [], [], []),
        host_messages.Answer(question=1, is_same=True),
        host_messages.Past(question=1, pid=7, parts=b"x"),
        host_messages.Bye(number=5),
        Report(1, True, [], [], [], recalled=(1 << 63) - 1),
        Stretches([StretchReport("abc.0.mpi-world", 2, 0, 0, [AlikeSums(bytes(24), [(0, 2, 1)])])]),  # another's rank
        Stretches([StretchReport("abc.0.mpi-world", 2, 32, 1 << 48, [AlikeSums(bytes(24), [(0, 1 << 60, 1)])])]),
        Stretches([], [MessageReport("abc.0.mpi-world", 0, b"cut off", b"")]),
        Stretches([], [MessageReport("no communicator", 1 << 60, bytes(16), b"\xff" * 512)]),
        Stretches([StretchReport("no communicator", 1024, 3, 5, [AlikeSums(bytes(24), [(7, 3, 0)])] * 9)]),
        host_messages.FreshFacts({7: KernelFacts("R", 1, 2.0, 3.0)}),
    ],
    ids=lambda lie: type(lie).__name__,
)
def test_what_a_host_says_that_is_not_so_costs_others_nothing(served: _Head, lie: host_messages.Upward) -> None:
    served.until(lambda: served.seen() == [0])
    liar = WatcherLink([served.head.address], served.secret, b"liar")
    hello = host_messages.Hello(host_messages.PROTOCOL, host_messages.package_version(), "liar", "l")
    try:
        served.until(lambda: liar.send(host_messages.encode(hello)) and len(served.head._hosts) == 2)
        liar.send(host_messages.encode(lie))
        liar.send(b"\xc1")  # what comes before it has been taken in when this is complained of
        served.until(lambda: any("cannot be read" in problem for problem in served.head.problems()))
    finally:
        liar.close()
    assert 0 in served.seen()
    honest = next(host for host in served.head._hosts.values() if host.name == socket.gethostname())
    assert not honest.is_lost
    assert all("liar" in text or "cannot be read" in text for text in served.head.problems())


@given(st.binary(max_size=200))
def test_bytes_are_a_message_or_nothing(content: bytes) -> None:
    host_messages.decode_upward(content)
    host_messages.decode_downward(content)


_MESSAGES = [
    Report(3, True, [RingReport(7, 1, ["ring.abc.0.0"], b"parts", _FACTS)], [NoteReport(8, 1, b"{}")], ["p"]),
    Stretches([StretchReport("abc.0.mpi-world", 2, 4, 9, [AlikeSums(bytes(24), [(0, 2, 1)])])]),
]


@given(st.sampled_from(_MESSAGES), st.data())
def test_a_message_with_some_other_bytes_is_a_message_or_nothing(
    message: host_messages.Upward, data: st.DataObject
) -> None:
    content = bytearray(host_messages.encode(message))
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=4)
    ):
        content[place] = value
    host_messages.decode_upward(bytes(content))


@given(st.sampled_from(["num_members", "level", "number", "sums"]), st.integers(1, 1000))
def test_numbers_of_a_stretch_that_are_too_large_are_not_taken_in(name: str, more: int) -> None:
    known = {"num_members": 1024, "level": 32, "number": 1 << 48, "sums": 24}
    for excess, is_taken in ((0, True), (more, False)):
        given = known | {name: known[name] + excess}
        sums = AlikeSums(bytes(given.pop("sums")), [(0, 1, 1)])
        content = host_messages.encode(
            Stretches([StretchReport(communicator="abc.0.mpi-world", alike=[sums], **given)])
        )
        assert (host_messages.decode_upward(content) is not None) == is_taken
