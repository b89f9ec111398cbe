"""A watcher: reads the rings of its host as a judge would, and tells the head. It decides nothing about ranks.

The job must not suffer from it, nor from a head that is absent, killed or cut off: ranks that have stopped before a
call go on when nobody answers for them.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.host_reports import HostReports
from paceline.guard.hosts.link import LINK_ERRORS, WatcherLink
from paceline.guard.hosts.stretches.told_stretches import ToldStretches
from paceline.guard.hosts.tree.relay import Relay
from paceline.guard.hosts.viewing.view_messages import WantGlances
from paceline.guard.observe.local_rings import LocalRings

LOOK_SECONDS = 0.02
_BEAT_SECONDS = 1.0
_FIRST_BEATS, _FIRST_BEAT_SECONDS = 5, 0.02  # by which clocks are compared at first
_ANSWER_SECONDS = 2.0  # for which a rank that has stopped waits for a word of the head
_RELAY_BEATS = 3.0  # for which a relay may be silent before its watchers go back to the head
_LAST_SECONDS = 2.0  # for which a relay stays for the last words of others
_LIFE_BITS = 40  # of the numbers of reports: nobody sends more
_DRIFT_SECONDS = 30.0  # how long the best comparison of clocks counts


class Watching:
    """The watching of one host, or of one of several commands there.

    Args:
        rings: The rings of the host.
        addresses: Where the head may be reached, as HOST:PORT.
        secret: The secret of the run.
        part: Which of several commands on this host we are, if each has its own watcher.
        name: By which the head knows us, if a watcher before us had it.
        life: How many watchers before us had this name: the numbers of our reports are above theirs.

    Attributes:
        was_known: Whether the head has ever answered.
        has_ended: Whether the head has ended the job.
        finding: Why, as JSON; empty if there was no finding.
    """

    def __init__(
        self,
        rings: LocalRings,
        addresses: Sequence[str],
        secret: bytes,
        *,
        part: str = "",
        name: bytes = b"",
        life: int = 0,
    ) -> None:
        self._rings, self._part = rings, part
        self._reports, self._stretches = HostReports(rings), ToldStretches()
        self._reports.marks.number = life << _LIFE_BITS
        self._secret, self._name = secret, name or secrets.token_hex(8).encode()
        self._link = WatcherLink(addresses, secret, self._name)
        self._home = self._link.address  # where the head is
        self._relay: Relay | None = None  # ours, if others speak through us
        self._beat_at = self._heard_at = self._told_at = self._moved_at = 0.0
        self._num_beats = 0
        self._pause = _BEAT_SECONDS
        self._is_known = False  # whether the head knows us
        self._head = ""  # the one that has asked who we are
        self.was_known = False
        self._best: tuple[int, float] | None = None  # the shortest way to the head and back in ns, and when
        self._stopped_since: float | None = None
        self._is_closed = False
        self.has_ended = False
        self.finding = b""

    def wait(self, seconds: float = LOOK_SECONDS) -> None:
        """Wait for a moment, or until a rank has ended or the head says something."""
        relayed = self._relay.sockets() if self._relay is not None else ()
        self._link.wait(seconds, self._rings.ends_descriptor, others=relayed)
        self._rings.wait(0.0)

    def look(self) -> None:
        """Look at the rings once, tell what is new, and hear what the head says."""
        if self._is_closed:
            return
        self._rings.jobs()
        link = self._link
        for content in list(link.receive()):
            message = host_messages.decode_downward(content)
            if message is not None and self._link is link:  # what was said before a move counts no more
                self._hear(message)
        if self._is_known:
            report = self._reports.look()
            if report is not None and self._link.send(host_messages.encode(report)):
                self._told_at = time.monotonic()
            self._unless_it_fails(self._tell_stretches)
            facts = self._reports.fresh_facts()
            if facts is not None:
                self._link.send(host_messages.encode(facts))
        self._beat()
        self._answer_for_head()
        if self._relay is not None:
            self._relay.turn()
        if self._link.address != self._home and time.monotonic() - self._moved_at > _RELAY_BEATS * self._pause:
            self._speak_to(self._home)  # nobody answers there

    def _beat(self) -> None:
        now = time.monotonic()
        pause = self._pause if self._num_beats >= _FIRST_BEATS else _FIRST_BEAT_SECONDS
        if now - self._beat_at < pause:
            return
        self._beat_at = now
        beat = host_messages.Beat(sent_ns=time.monotonic_ns(), number=self._reports.marks.number)
        self._link.send(host_messages.encode(beat))

    def _hear(self, message: host_messages.Downward) -> None:
        if isinstance(message, host_messages.Beat) and self.was_known and message.head not in ("", self._head):
            return  # another head is there now: that of another run, of which we know nothing
        self._moved_at = time.monotonic()
        if not isinstance(message, host_messages.Beat) or message.number >= 0:
            self._heard_at = time.monotonic()  # a head that does not know us answers for nobody
        if isinstance(message, host_messages.Beat):
            self._hear_beat(message)
        elif isinstance(message, host_messages.Ask):
            for answer in self._reports.answer(message):
                self._link.send(host_messages.encode(answer))
        elif isinstance(message, host_messages.GoOn):
            self._reports.let_go_on(message.pid)
        elif isinstance(message, host_messages.Follow):
            self._reports.follow(message.world, message.ranks)
        elif isinstance(message, WantGlances):
            self._unless_it_fails(partial(self._tell_glances, message))
        elif isinstance(message, host_messages.Recall):
            self._reports.recall(message)
        elif isinstance(message, host_messages.MoveTo):
            if message.address:
                self._stop_serving()
            self._speak_to(message.address or self._home)
        elif isinstance(message, host_messages.Serve):
            self._serve()
        elif isinstance(message, host_messages.EndJob):
            self.has_ended, self.finding = True, message.finding or self.finding

    def _tell_stretches(self) -> None:
        stretches = self._stretches.look(self._rings.held_rings())
        if stretches is not None:
            self._link.send(host_messages.encode(stretches))

    def _tell_glances(self, want: WantGlances) -> None:
        glances = self._reports.glances(want)
        if glances is not None:
            self._link.send(host_messages.encode(glances))

    def _unless_it_fails(self, tell: Callable[[], None]) -> None:
        """Tell what the job is judged without; if that fails, tell why."""
        try:
            tell()
        except Exception as error:
            self._reports.note_problem(f"not all of its calls are compared or shown: {type(error).__name__}: {error}")

    def _speak_to(self, address: str) -> None:
        """Speak to the head through a relay, or to the head itself, and tell everything there."""
        if address == self._link.address:
            return
        try:
            link = WatcherLink([address], self._secret, self._name)
        except LINK_ERRORS:  # there is no such address, or no room: we stay, and are told again
            return
        self._link.close()
        self._link = link
        self._moved_at = time.monotonic()
        self._is_known, self._num_beats, self._best = False, 0, None

    def _serve(self) -> None:
        """Let others speak through us."""
        if self._relay is None and self._link.address == self._home:
            reports = self._reports
            # if there is no port for it, the head asks somebody else
            with suppress(*LINK_ERRORS):
                self._relay = Relay(
                    self._home, self._secret, self._name, clock=lambda: (reports.end_shift_ns, reports.end_error_ns)
                )

    def _stop_serving(self) -> None:
        """Be no relay any more: one speaks to the head itself, and tells its clock by the head's."""
        if self._relay is not None:
            self._relay.close()
            self._relay = None

    def _hear_beat(self, beat: host_messages.Beat) -> None:
        self._num_beats += 1
        self._pause = beat.pause * _BEAT_SECONDS
        self._compare_clocks(beat)
        if beat.number < 0:
            if self._is_known:
                self._num_beats = 0  # a head that was started again: it is told everything as soon as the first one was
            self._is_known, self._head = False, beat.head
            hello = host_messages.Hello(
                protocol=host_messages.PROTOCOL, version=host_messages.package_version(), host=socket.gethostname(),
                identity=f"{self._part} {_host_identity()}"[:200],
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
            self._reports.end_error_ns = there_and_back // 2 + beat.error_ns

    def _answer_for_head(self) -> None:
        """Let ranks go on that have stopped and hear nothing, because nobody hears us."""
        now = time.monotonic()
        if now - self._heard_at > _ANSWER_SECONDS * self._pause / _BEAT_SECONDS:
            self._stopped_since = self._stopped_since or now
            if now - self._stopped_since > _ANSWER_SECONDS:
                self._reports.let_go_on()
        else:
            self._stopped_since = None

    def was_heard_within(self, seconds: float) -> bool:
        """Say whether a head that knows us has said something of late."""
        return bool(self._heard_at) and time.monotonic() - self._heard_at < seconds

    def leave_before_ranks(self) -> None:
        """Leave before the ranks are killed: nobody waits for a word about them any more. A relay stays for others."""
        if self._relay is None:
            self.close()

    def close(self) -> None:
        """Tell the last, and leave."""
        if self._is_closed:
            return
        self._is_closed = True
        self._close_relay()
        self._link.send(host_messages.encode(host_messages.Bye(number=self._reports.marks.number)))
        self._link.close(linger_seconds=1.0)

    def _close_relay(self) -> None:
        """Pass on the last words of others, which end when we do, and leave."""
        if self._relay is None:
            return
        deadline = time.monotonic() + _LAST_SECONDS
        while self._relay.num_watchers and time.monotonic() < deadline:
            self._relay.turn()
            time.sleep(LOOK_SECONDS)
        self._stop_serving()


def _host_identity() -> str:
    """Return what tells this host from others: containers of one machine have a /dev/shm or processes of their own."""
    parts = [socket.gethostname()]
    for path in ("/dev/shm", "/proc/self/ns/pid"):
        status = Path(path).stat()
        parts.append(f"{status.st_dev}-{status.st_ino}")
    return " ".join(parts)
