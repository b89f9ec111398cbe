"""What the head knows of each host, and the names of hosts in a finding."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from paceline.guard.hosts.mirror import RingMirror
from paceline.guard.hosts.remote_process import RemoteProcess, process_number
from paceline.guard.observe.rank_starts import StartedRank
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.finding import Finding

_SILENT_SECONDS = 3.0  # without a beat, after which a host counts as not heard of; more if beats are further apart
_PAUSES = ((64, 1), (512, 2), (4096, 3), (1 << 30, 5))  # most hosts, and seconds between two beats of one


def beat_pause(num_hosts: int) -> int:
    """Return the seconds between two beats of a host: many hosts beat more slowly.

    >>> beat_pause(3), beat_pause(12_800)
    (1, 5)
    """
    return next(pause for most, pause in _PAUSES if num_hosts <= most)


@dataclass(slots=True, eq=False)
class KnownHost:
    """What is known of one watcher."""

    link: bytes  # by which it is spoken to
    number: int  # of the host, among all
    name: str
    identity: str  # tells it from others of the same name
    heard_at: float
    mirrors: dict[int, RingMirror] = field(default_factory=dict)
    processes: dict[int, RemoteProcess] = field(default_factory=dict)
    has_states: bool = False  # it tells of ranks by their states
    has_left: bool = False  # all its ranks have ended, or are killed now, and everything was told
    is_lost: bool = False  # it was not heard of, and has not told everything since
    end_sent_at: float = 0.0
    address: str = ""  # where it listens, if it is a relay
    children: dict[bytes, KnownHost] = field(default_factory=dict)  # of a relay: who speaks through it
    parent: KnownHost | None = None  # the relay through which it speaks
    placed_at: float = 0.0  # when it was sent there

    @property
    def lives(self) -> bool:
        """Whether ranks of it may still move; of a relay, ranks of those who speak through it."""
        return not self.has_left and (
            self.has_states
            or any(not process.ended_ns for process in self.processes.values())
            or any(child.lives for child in self.children.values())
        )

    def may_move(self) -> bool:
        """Say whether it is heard of, and ranks of it may still move."""
        return self.lives and not self.is_lost

    def has_left_as(self, identity: str) -> bool:
        """Say whether it has left, so that whoever has this identity comes with the next command of its host."""
        return self.has_left and self.identity == identity

    def waiting_to_go_on(self) -> Iterator[int]:
        """Return the processes of ranks that have stopped, and are to go on."""
        return (pid for pid, mirror in self.mirrors.items() if mirror.wants_to_go_on())


def silent_hosts(hosts: Iterable[KnownHost], now: float, num_hosts: int) -> list[KnownHost]:
    """Return those of some hosts that should have been heard of since, in a job on so many hosts."""
    silent = _SILENT_SECONDS * beat_pause(num_hosts)
    return [host for host in hosts if now - host.heard_at > silent and host.may_move()]


class HostProcess(RemoteProcess):
    """All ranks of a host that are told of by their states: they end together, and have ended when their watcher has.

    Args:
        host: The host.
        end_host: Ends its ranks.
    """

    def __init__(self, host: KnownHost, end_host: Callable[[], None]) -> None:
        super().__init__(process_number(host.number, 0), host.name, lambda: host.is_lost, end_host)
        self._known_host = host

    def has_ended(self) -> bool:
        """Say whether all its ranks have ended."""
        return self._known_host.has_left


def with_host_names(finding: Finding, jobs: Sequence[WatchedJob], started: Iterable[StartedRank]) -> Finding:
    """Add the names of hosts to the groups of a finding: of ranks of jobs, and of those that have not joined one."""
    names = {each.rank: each.process.host for each in started}
    here = socket.gethostname()
    for job in jobs:
        names |= {rank: held.process.host for rank, held in job.ranks.items()}
    groups = tuple(
        replace(group, hosts=tuple(dict.fromkeys(names[rank] or here for rank in group.ranks if rank in names)))
        for group in finding.groups
    )
    return replace(finding, groups=groups)
