"""Which hosts speak to the head itself, and which through a relay. Decides; the head carries it out.

The first hosts speak to the head. Each further one is sent to a relay, which is one of the first. A host that comes
back from its relay is sent to another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.guard.hosts.known_hosts import KnownHost

MOST_DIRECT = 512  # hosts that speak to the head itself
MOST_CHILDREN = 128  # hosts of one relay
_SPARE = 256  # places at relays that are held ready
_MOST_STARTING = 8  # relays that are started at once
_START_SECONDS = 10.0  # after which a relay that was asked for is not waited for any more
_RETURN_SECONDS = 5.0  # a host that says who it is again after that has found nobody at its relay


@dataclass(frozen=True, slots=True)
class TreePlace:
    """Where a host is to speak: to the head, through a relay, or nowhere yet."""

    is_direct: bool = False
    relay: KnownHost | None = None


class HostTree:
    """The hosts of a head.

    Attributes:
        direct: Hosts and relays that speak to the head, by their link.
    """

    def __init__(self) -> None:
        self.direct: dict[bytes, KnownHost] = {}
        self._relays: list[KnownHost] = []
        self._asked: dict[bytes, float] = {}  # hosts that were asked to be relays, and when

    def add(self, host: KnownHost, *, asked: bytes = b"") -> None:
        """A host speaks to the head, or a relay, which was asked for by this link."""
        self.direct[host.link] = host
        if host.address:
            self._relays.append(host)
            self._asked[asked] = -_START_SECONDS

    def place(self, host: KnownHost | None, now: float) -> TreePlace:
        """Return where a host is to speak that has said who it is; None is one that was not known."""
        if host is not None and host.parent is None:
            return TreePlace(is_direct=True)
        if host is None and len(self.direct) - len(self._relays) < MOST_DIRECT:
            return TreePlace(is_direct=True)
        if host is not None and host.parent in self._open() and now - host.placed_at < _RETURN_SECONDS:
            return TreePlace(relay=host.parent)
        left = host.parent if host is not None else None
        others = [relay for relay in self._open() if relay is not left and len(relay.children) < MOST_CHILDREN]
        return TreePlace(relay=min(others, key=lambda relay: len(relay.children), default=None))

    def _open(self) -> list[KnownHost]:
        return [relay for relay in self._relays if not relay.is_lost and not relay.has_left]

    def to_serve(self, now: float) -> Iterator[KnownHost]:
        """Return hosts that are to become relays, since places become few."""
        places = sum(MOST_CHILDREN - len(relay.children) for relay in self._open())
        num_starting = sum(now - asked_at < _START_SECONDS for asked_at in self._asked.values())
        places += num_starting * MOST_CHILDREN
        for host in self.direct.values():
            if places >= _SPARE or num_starting >= _MOST_STARTING:
                return
            if not host.address and not host.is_lost and host.link not in self._asked:
                self._asked[host.link] = now
                num_starting, places = num_starting + 1, places + MOST_CHILDREN
                yield host

    def give(self, host: KnownHost, relay: KnownHost, now: float) -> None:
        """A host speaks through a relay from now on."""
        if host.parent is not None:
            host.parent.children.pop(host.link, None)
        host.parent, host.placed_at = relay, now
        relay.children[host.link] = host
