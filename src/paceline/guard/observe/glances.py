"""What a view needs of one rank at one moment: the call that it is inside, how often it was where, when it arrived.

It is read from the rank's ring, here or by the watcher of another host; nothing is concluded from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE, Family, shown_name

FADE_SECONDS = 5.0  # how fast the past fades from the share of time in calls


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """When a rank entered one collective."""

    communicator: str
    size: int  # of the communicator
    sequence: int
    entered_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """One rank at one moment; times by the clock of who looks."""

    call: str = ""  # the call that it is inside; empty if it runs
    site: str = ""
    entered_ns: int = 0
    # site -> calls made there, of its last calls; None if they are of long ago
    counts: Mapping[str, int] | None = field(default_factory=dict)
    arrivals: tuple[Arrival, ...] = ()
    error_ns: int = 0  # by how much its times may be wrong, if the clock is that of another host
    share_in_calls: float | None = None  # of its time of late, if the host of the rank has told it


def glance_at(reader: RingReader, *, num_calls: int) -> Glance:
    """Read a rank's ring, with its last calls."""
    reader.read_texts()
    counts: dict[str, int] = {}
    arrivals = []
    for call in reader.recent(num_calls):
        operation = BY_CODE.get(call.operation)
        if operation is None:
            continue  # half of a record that is being written
        counts[reader.site(call.site)] = call.at_site
        known = reader.communicators.get(call.communicator)
        if operation.family is Family.COLLECTIVE and known is not None:
            arrivals.append(
                Arrival(
                    communicator=known.identity, size=known.size, sequence=call.sequence, entered_ns=call.entered_ns
                )
            )
    waiting = next((found for found in reader.threads() if found is not None), None)
    if waiting is None or reader.word(layout.LOST) & layout.LOST_THREADS:
        return Glance(counts=counts, arrivals=tuple(arrivals))
    inside = waiting.call
    return Glance(
        call=shown_name(inside.operation), site=inside.site, entered_ns=inside.entered_ns, counts=counts,
        arrivals=tuple(arrivals),
    )  # fmt: skip


class CallShares:
    """The share of its time that each of some ranks was in calls lately, from looks at them."""

    def __init__(self) -> None:
        self._inside: dict[int, float] = {}  # fading sum of looks that found the rank in a call
        self._all: dict[int, float] = {}  # fading sum of all looks

    def add(self, rank: int, *, is_inside: bool, seconds: float) -> None:
        """Take in one more look at a rank, so many seconds after the one before."""
        keep = max(0.0, 1.0 - seconds / FADE_SECONDS)
        self._inside[rank] = self._inside.get(rank, 0.0) * keep + is_inside * (1.0 - keep)
        self._all[rank] = self._all.get(rank, 0.0) * keep + (1.0 - keep)

    def share(self, rank: int) -> float | None:
        """Return the share of a rank; None before the first look."""
        weight = self._all.get(rank, 0.0)
        return self._inside[rank] / weight if weight > 0 else None
