"""What ranks that could not see each other may have passed although it does not fit: a collective, or messages."""

from __future__ import annotations

from typing import NamedTuple

from paceline.guard.verdict.snapshot import Position


class MessagePair(NamedTuple):
    """Two ranks, one of which sends messages to the other on a communicator."""

    communicator: str
    sender: int
    receiver: int


Passed = Position | MessagePair  # what ranks may have passed that does not fit
