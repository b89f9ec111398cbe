"""A process on another host, as the watcher there tells of it. It answers what a judge asks of a process here."""

from __future__ import annotations

from collections.abc import Callable

from paceline.guard.hosts.host_messages import EndFacts, KernelFacts
from paceline.guard.observe.kernel_view import Activity, ProcessHandle

_SHIFT = 32  # of the number of the host in the number of a process: two hosts may use the same numbers


def process_number(host: int, pid: int) -> int:
    """Return a number for a process of another host that no process here has.

    >>> process_number(0, 17) >> 32, process_number(0, 17) & 0xFFFF
    (1, 17)
    """
    return (host + 1) << _SHIFT | pid


def is_elsewhere(number: int) -> bool:
    """Say whether a number is that of a process of another host."""
    return number >= 1 << _SHIFT


class RemoteProcess(ProcessHandle):
    """A process that a watcher tells of.

    Args:
        number: By which it is known here.
        host: The name of its host.
        is_silent: Says whether its host is not heard of.
        end_host: Ends the ranks of its host.
    """

    def __init__(self, number: int, host: str, is_silent: Callable[[], bool], end_host: Callable[[], None]) -> None:
        self.pid = number
        self.ended_ns = self.alive_ns = 0
        self.status: int | None = None
        self.note_ends = None
        self._host, self._is_silent, self._end_host = host, is_silent, end_host
        self._facts = KernelFacts()
        self._kills = 0
        self.error_ns = 0  # by how much the times of its end may be wrong
        self._when_is_unknown = False

    def note_facts(self, facts: KernelFacts) -> None:
        """Take in what the kernel of its host says."""
        self._facts = facts

    def note_end_facts(self, end: EndFacts, *, said_when: bool = False) -> None:
        """Take in that it has ended, and how.

        Args:
            end: What its host saw.
            said_when: Whether it has said itself when it ends.
        """
        self._when_is_unknown = not end.alive_ns and not said_when
        self.note_alive(end.alive_ns)
        self.note_end(max(1, end.at_ns))
        self.note_closed(end.closed_ns)
        self.with_others = end.with_others
        self.status, self._kills, self.error_ns = end.status, end.memory_kills, end.error_ns

    @property
    def descriptor(self) -> int | None:
        """Nothing here becomes readable when it ends."""
        return None

    @property
    def host(self) -> str:
        """The name of its host."""
        return self._host

    @property
    def is_lost(self) -> bool:
        """Whether its host is not heard of, so that it may do anything; or nobody knows when it ended."""
        return self._when_is_unknown or (not self.ended_ns and self._is_silent())

    def has_ended(self) -> bool:
        """Say whether its host has told that it has ended."""
        return bool(self.ended_ns)

    def ask_status(self) -> None:
        """Its status comes with the word that it has ended."""

    def activity(self) -> Activity | None:
        """Return what it did when its host last told of it."""
        if self.ended_ns:
            return None
        return Activity(state=self._facts.state, rss_bytes=self._facts.rss_bytes)

    def processor_seconds(self) -> float:
        """Return for how long it has had a processor, as its host last told."""
        return self._facts.processor_seconds

    def starved_seconds(self) -> float:
        """Return for how long it has wanted a processor and had none, as its host last told."""
        return self._facts.starved_seconds

    def memory_kills_since(self, before: int) -> int:
        """Return how many processes its own host has killed for memory since it was watched."""
        return self._kills

    def kill(self) -> None:
        """Have its host end its ranks."""
        self._end_host()

    def close(self) -> None:
        """There is nothing to let go of."""
