"""Messages whose two sides were told by different hosts: does what was sent go into what was to be received?

Numbers in, numbers out. A side whose other side is never told, or was lost, is forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from paceline.guard.shared_memory.board import message_fits

_Host = TypeVar("_Host", bound=Hashable)
MOST_SIDES = 1 << 14  # that wait for their other side


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSuspicion(Generic[_Host]):
    """Two ranks between which a message may not fit.

    Attributes:
        communicator: Its identity.
        sender: By its rank in the world of the communicator.
        receiver: The same.
        hosts: Who has told of each of the two.
    """

    communicator: str
    sender: int
    receiver: int
    hosts: Mapping[int, _Host]

    @property
    def first_ranks(self) -> frozenset[int]:
        """The ranks whose calls are looked at."""
        return frozenset((self.sender, self.receiver))

    @property
    def kind(self) -> str:
        """What else may be suspected of the same communicator, and is left alone by itself."""
        return "message"

    @property
    def may_wait(self) -> bool:
        """Whether it is worth to be looked at after others."""
        return True


class MetMessages(Generic[_Host]):
    """The sides that were told."""

    def __init__(self) -> None:
        self._sides: dict[tuple[str, int, bool], tuple[int, int, _Host]] = {}  # size, rank, host

    def take(
        self, host: _Host, communicator: str, rank: int, key: int, size: int, *, sends: bool
    ) -> MessageSuspicion[_Host] | None:
        """Take in one side of a message; return a suspicion if the other side is there and does not fit."""
        other = self._sides.pop((communicator, key, not sends), None)
        if other is None:
            self._sides[communicator, key, sends] = size, rank, host
            if len(self._sides) > MOST_SIDES:
                del self._sides[next(iter(self._sides))]
            return None
        other_size, other_rank, other_host = other
        if message_fits(size, other_size) if sends else message_fits(other_size, size):
            return None
        sender, receiver = (rank, other_rank) if sends else (other_rank, rank)
        hosts = {rank: host, other_rank: other_host}
        return MessageSuspicion(communicator=communicator, sender=sender, receiver=receiver, hosts=hosts)
