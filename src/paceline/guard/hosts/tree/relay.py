"""A relay: a head to the watchers that speak through it, and a watcher to the head.

It judges nothing. If it fails, its watchers go back to the head; the ranks of their hosts do not notice. A relay that
does not hear of the head answers nobody: it cannot answer for the head.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.link import HeadLink, WatcherLink, listen, own_address
from paceline.guard.hosts.tree.relayed_reports import RelayedReports

_SILENT_BEATS = 3  # pauses between two beats, after which a watcher is not heard of
_UNLED_BEATS = 2  # the same, after which the head is not heard of
_ANSWER_PAUSES = 1.0  # the same for the second question: the head waits for twice as long
_BEAT_SECONDS = 0.1  # until the head knows the relay


class Relay:
    """The relay of one host.

    Args:
        head: Where the head is, as HOST:PORT.
        secret: The secret of the run.
        name: Under which the head knows the watcher that was asked to be a relay.
        clock: Returns by how much the head's clock is ahead of ours, and by how much that may be wrong, in ns.
    """

    def __init__(self, head: str, secret: bytes, name: bytes, clock: Callable[[], tuple[int, int]]) -> None:
        listening = listen(own_address(head))
        address, port = listening.getsockname()[:2]
        self.address = f"{f'[{address}]' if ':' in address else address}:{port}"
        self._name, self._clock = name, clock
        self._down = HeadLink(listening, secret)
        self._up = WatcherLink([head], secret, secrets.token_hex(8).encode())
        self._reports = RelayedReports()
        self._heard: dict[bytes, float] = {}  # watchers that have said who they are, and when they were heard of
        self._pause, self._is_known = 1, False
        self._head = ""  # the one that has asked who we are: watchers know it by that name
        self._beat_at = self._told_at = self._asked_at = 0.0
        self._led_at = 0.0  # when the head was heard of

    def sockets(self) -> list[Any]:
        """Return what can be waited for together with other connections."""
        return [*self._down.sockets(), *self._up.sockets()]

    @property
    def num_watchers(self) -> int:
        """How many watchers speak through it."""
        return len(self._heard)

    def turn(self) -> None:
        """Hear everybody, and say what there is to say."""
        for link, content in self._down.receive():
            message = host_messages.decode_upward(content)
            if message is not None:
                self._hear_watcher(link, message, content)
        for content in self._up.receive():
            order = host_messages.decode_downward(content)
            if order is not None:
                self._hear_head(order)
        self._lose_silent()
        self._lose_who_does_not_answer()
        if self._is_known:
            self._tell()
        self._beat()

    # watchers

    def _hear_watcher(self, link: bytes, message: host_messages.Upward, content: bytes) -> None:
        if isinstance(message, host_messages.Hello):
            self._heard[link] = time.monotonic()
            self._reports.add(link)
        elif isinstance(message, host_messages.Beat):
            self._answer_beat(link, message)
        elif link in self._heard:
            self._heard[link] = time.monotonic()
            if isinstance(message, host_messages.Report):
                self._reports.take(link, message)
            elif isinstance(message, host_messages.Answer):
                self._reports.note_answer(link, message)
            elif isinstance(message, host_messages.Bye):
                self._reports.leave(link, message)
                self._heard.pop(link)
            else:
                self._up.send(host_messages.encode(host_messages.Passed(link, content)))

    def _answer_beat(self, link: bytes, beat: host_messages.Beat) -> None:
        """Answer as the head would, by its clock; not at all if it is not heard of."""
        if time.monotonic() - self._led_at > _UNLED_BEATS * self._pause:
            return
        number = -1
        if link in self._heard:
            self._heard[link] = time.monotonic()
            number = self._reports.taken.numbers.get(link, 0)
        shift_ns, error_ns = self._clock()
        now_ns = max(0, time.monotonic_ns() + shift_ns)
        answer = host_messages.Beat(
            now_ns, echo_ns=beat.sent_ns, number=number, pause=self._pause,
            head=self._head if number < 0 else "", error_ns=error_ns,
        )  # fmt: skip
        self._down.send(link, host_messages.encode(answer))

    def _lose_silent(self) -> None:
        now = time.monotonic()
        for link in [link for link, heard_at in self._heard.items() if now - heard_at > _SILENT_BEATS * self._pause]:
            del self._heard[link]
            self._reports.lose(link)

    def _lose_who_does_not_answer(self) -> None:
        """Answer the head in time, also if somebody does not answer here."""
        if self._asked_at and time.monotonic() - self._asked_at > _ANSWER_PAUSES * self._pause:
            self._asked_at = 0.0
            for link in self._reports.taken.silent() & self._heard.keys():
                del self._heard[link]
                self._reports.lose(link)

    # the head

    def _hear_head(self, message: host_messages.Downward) -> None:
        if isinstance(message, host_messages.Beat):
            if self._head and message.head not in ("", self._head):
                return  # another head is there now: that of another run, of which we know nothing
            self._led_at = time.monotonic()
            self._hear_beat(message)
        elif isinstance(message, host_messages.PassOn):
            self._down.send(message.link, message.content)
        elif isinstance(message, host_messages.TellAnew):
            if message.link in self._heard:
                self._reports.add(message.link)
        elif isinstance(message, host_messages.Ask) and message.question:
            self._asked_at = time.monotonic()
            for link, ask in self._reports.ask(message).items():
                self._down.send(link, host_messages.encode(ask))
        elif isinstance(message, host_messages.Ask | host_messages.EndJob):
            self._say_to_all(message)

    def _hear_beat(self, beat: host_messages.Beat) -> None:
        self._pause = beat.pause
        if beat.number < 0:
            if self._is_known:  # it was started again, and does not know who speaks through us
                self._send_home()
            self._is_known, self._head = False, beat.head
            hello = host_messages.Hello(
                protocol=host_messages.PROTOCOL, version=host_messages.package_version(), host=socket.gethostname(),
                identity=self._name.decode(), address=self.address,
            )  # fmt: skip
            self._up.send(host_messages.encode(hello))
        elif not self._is_known:
            self._is_known = True
            self._reports.forget()
        elif beat.number != self._reports.number and beat.echo_ns > self._told_at * 1e9:
            self._reports.forget()  # the head had our beat after the report, and has not had the report

    def _tell(self) -> None:
        for report in self._reports.reports():
            self._up.send(host_messages.encode(report))
            self._told_at = time.monotonic()
        answer = self._reports.answer()
        if answer is not None:
            self._asked_at = 0.0
            self._up.send(host_messages.encode(answer))

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beat_at >= (self._pause if self._is_known else _BEAT_SECONDS):
            self._beat_at = now
            beat = host_messages.Beat(sent_ns=time.monotonic_ns(), number=self._reports.number)
            self._up.send(host_messages.encode(beat))

    def _say_to_all(self, message: host_messages.Downward) -> None:
        content = host_messages.encode(message)
        for link in self._heard:
            self._down.send(link, content)

    def _send_home(self) -> None:
        """Send watchers back to the head."""
        self._say_to_all(host_messages.MoveTo(""))
        self._heard.clear()

    def close(self) -> None:
        """Send watchers back to the head, and leave."""
        self._send_home()
        self._up.send(host_messages.encode(host_messages.Bye(number=self._reports.number)))
        self._down.close(linger_seconds=0.5)
        self._up.close(linger_seconds=0.5)
