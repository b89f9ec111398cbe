"""A watcher: reads the rings of its host as a judge would, and tells the head. It decides nothing about ranks.

The job must not suffer from it, nor from a head that is absent, killed or cut off: ranks that have stopped before a
call go on when nobody answers for them.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Sequence
from pathlib import Path

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.host_reports import HostReports
from paceline.guard.hosts.link import WatcherLink
from paceline.guard.observe.local_rings import LocalRings

LOOK_SECONDS = 0.02
_BEAT_SECONDS = 1.0
_FIRST_BEATS, _FIRST_BEAT_SECONDS = 5, 0.02  # by which clocks are compared at first
_ANSWER_SECONDS = 2.0  # for which a rank that has stopped waits for a word of the head
_DRIFT_SECONDS = 30.0  # how long the best comparison of clocks counts


class Watching:
    """The watching of one host.

    Attributes:
        was_known: Whether the head has ever answered.
        has_ended: Whether the head has ended the job.
        finding: Why, as JSON; empty if there was no finding.
    """

    def __init__(self, rings: LocalRings, addresses: Sequence[str], secret: bytes) -> None:
        self._rings = rings
        self._reports = HostReports(rings)
        self._link = WatcherLink(addresses, secret, secrets.token_hex(8).encode())
        self._beat_at = self._heard_at = self._told_at = 0.0
        self._num_beats = 0
        self._is_known = False  # whether the head knows us
        self.was_known = False
        self._best: tuple[int, float] | None = None  # the shortest way to the head and back in ns, and when
        self._stopped_since: float | None = None
        self._is_closed = False
        self.has_ended = False
        self.finding = b""

    def wait(self, seconds: float = LOOK_SECONDS) -> None:
        """Wait for a moment, or until a rank has ended or the head says something."""
        self._link.wait(seconds, self._rings.ends_descriptor)
        self._rings.wait(0.0)

    def look(self) -> None:
        """Look at the rings once, tell what is new, and hear what the head says."""
        self._rings.jobs()
        for content in self._link.receive():
            message = host_messages.decode_downward(content)
            if message is not None:
                self._hear(message)
        if self._is_known:
            report = self._reports.look()
            if report is not None and self._link.send(host_messages.encode(report)):
                self._told_at = time.monotonic()
            facts = self._reports.fresh_facts()
            if facts is not None:
                self._link.send(host_messages.encode(facts))
        self._beat()
        self._answer_for_head()

    def _beat(self) -> None:
        now = time.monotonic()
        pause = _BEAT_SECONDS if self._num_beats >= _FIRST_BEATS else _FIRST_BEAT_SECONDS
        if now - self._beat_at < pause:
            return
        self._beat_at = now
        beat = host_messages.Beat(sent_ns=time.monotonic_ns(), number=self._reports.marks.number)
        self._link.send(host_messages.encode(beat))

    def _hear(self, message: host_messages.Downward) -> None:
        if not isinstance(message, host_messages.Beat) or message.number >= 0:
            self._heard_at = time.monotonic()  # a head that does not know us answers for nobody
        if isinstance(message, host_messages.Beat):
            self._hear_beat(message)
        elif isinstance(message, host_messages.Ask):
            for answer in self._reports.answer(message):
                self._link.send(host_messages.encode(answer))
        elif isinstance(message, host_messages.GoOn):
            self._reports.let_go_on(message.pid)
        else:
            self.has_ended, self.finding = True, message.finding or self.finding

    def _hear_beat(self, beat: host_messages.Beat) -> None:
        self._num_beats += 1
        self._compare_clocks(beat)
        if beat.number < 0:
            self._is_known = False
            hello = host_messages.Hello(
                protocol=host_messages.PROTOCOL, version=host_messages.package_version(), host=socket.gethostname(),
                identity=_host_identity(),
            )  # fmt: skip
            self._link.send(host_messages.encode(hello))
        elif not self._is_known and self._num_beats >= _FIRST_BEATS:
            self._is_known = self.was_known = True
            self._reports.shift_ns, self._reports.shift_error_ns = (
                self._reports.end_shift_ns,
                self._reports.end_error_ns,
            )
            self._reports.tell_everything()
        elif self._is_known and beat.number != self._reports.marks.number and beat.echo_ns > self._told_at * 1e9:
            self._reports.tell_everything()  # the head had our beat after the report, and has not had the report

    def _compare_clocks(self, beat: host_messages.Beat) -> None:
        """Note how far the head's clock is ahead of ours, by the beat that came back fastest of late."""
        now_ns, now = time.monotonic_ns(), time.monotonic()
        there_and_back = now_ns - beat.echo_ns
        if self._best is None or there_and_back <= self._best[0] or now - self._best[1] > _DRIFT_SECONDS:
            self._best = there_and_back, now
            self._reports.end_shift_ns = beat.sent_ns + there_and_back // 2 - now_ns
            self._reports.end_error_ns = there_and_back // 2

    def _answer_for_head(self) -> None:
        """Let ranks go on that have stopped and hear nothing, because nobody hears us."""
        now = time.monotonic()
        if now - self._heard_at > _ANSWER_SECONDS:
            self._stopped_since = self._stopped_since or now
            if now - self._stopped_since > _ANSWER_SECONDS:
                self._reports.let_go_on()
        else:
            self._stopped_since = None

    def was_heard_within(self, seconds: float) -> bool:
        """Say whether a head that knows us has said something of late."""
        return bool(self._heard_at) and time.monotonic() - self._heard_at < seconds

    def close(self) -> None:
        """Tell the last, and leave."""
        if self._is_closed:
            return
        self._is_closed = True
        self._link.send(host_messages.encode(host_messages.Bye(number=self._reports.marks.number)))
        self._link.close(linger_seconds=1.0)


def _host_identity() -> str:
    """Return what tells this host from others: containers of one machine have a /dev/shm or processes of their own."""
    parts = [socket.gethostname()]
    for path in ("/dev/shm", "/proc/self/ns/pid"):
        status = Path(path).stat()
        parts.append(f"{status.st_dev}-{status.st_ino}")
    return " ".join(parts)[:200]
