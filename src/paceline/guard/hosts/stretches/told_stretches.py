"""What a host tells of calls that do not wait, on communicators that have members elsewhere.

Of collectives that is sums of stretches, and of messages to and from other hosts some of them. Twice a second at most,
and nothing if nobody has called. Local members with equal sums are told of together. Large jobs are left out: their
ranks are told of by classes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy

from paceline.guard.hosts.classes.told_states import LARGE
from paceline.guard.hosts.host_messages import MOST_STRETCHES, AlikeSums, MessageReport, Stretches, StretchReport
from paceline.guard.hosts.stretches.message_sides import sides_told
from paceline.guard.hosts.stretches.ring_sums import RingSums
from paceline.guard.hosts.stretches.stretch import Stretch, Sums, cut
from paceline.guard.observe.local_rings import HeldRing, rank_of
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.number_ranges import to_ranges
from paceline.guard.shared_memory.ring_texts import CommunicatorText
from paceline.guard.verdict.snapshot import is_inter

TELL_SECONDS = 0.5
_MANY_CALLS = layout.NUM_SLOTS // 4  # of one rank, after which they are read although nothing is told yet
_Rank = int


@dataclass(frozen=True, slots=True)
class _Shared:
    """A communicator with members here and elsewhere."""

    members: Sequence[_Rank]  # by their rank in its world
    local: tuple[_Rank, ...]


class ToldStretches:
    """The stretches of one host."""

    def __init__(self) -> None:
        self._sums: dict[int, RingSums] = {}  # by process
        self._told_at = 0.0

    def look(self, rings: Sequence[HeldRing]) -> Stretches | None:
        """Read what ranks have called, if it is time; return what is to be told, if there is anything.

        Args:
            rings: Those of this host.
        """
        now = time.monotonic()
        is_time = now - self._told_at >= TELL_SECONDS
        due = [held for held in rings if is_time or self._sums_of(held).num_new(held.reader) >= _MANY_CALLS]
        if not due:
            return None
        shared = _shared_communicators(rings)
        for held in due if shared else ():
            self._sums_of(held).read(held.reader, shared)
        if not is_time:
            return None
        self._told_at = now
        told = [report for identity, known in shared.items() for report in self._tell(rings, identity, known)]
        messages = [report for identity, known in shared.items() for report in self._met(rings, identity, known)]
        # a job that makes communicators all the time may have more
        return Stretches(told[:MOST_STRETCHES], messages[:MOST_STRETCHES]) if told or messages else None

    def _sums_of(self, held: HeldRing) -> RingSums:
        return self._sums.setdefault(rank_of(held).process.pid, RingSums())

    def _tell(self, rings: Iterable[HeldRing], identity: str, known: _Shared) -> list[StretchReport]:
        """Return what all local members of a communicator have come past, and take it to have been told."""
        world = identity.rpartition(".")[0]
        held_by_rank = {held.names[world]: held for held in rings if world in held.names}
        members = {rank: self._sums_of(held_by_rank[rank]).of.get(identity) for rank in known.local}
        sums = {rank: held for rank, held in members.items() if held is not None and held.begin is not None}
        if len(sums) < len(members):
            return []
        end = min(held.end for held in sums.values())
        to_the_end = all(rank_of(held_by_rank[rank]).process.has_ended() for rank in known.local)
        alike: dict[Stretch, dict[Sums, list[_Rank]]] = {}
        for rank, held in sums.items():
            assert held.begin is not None
            for stretch in cut(held.begin, end, to_the_end=to_the_end):
                alike.setdefault(stretch, {}).setdefault(held.sums(stretch), []).append(rank)
                held.drop_before(stretch.end)
        return [
            StretchReport(
                identity, len(known.members), stretch.level, stretch.number,
                [AlikeSums(each.packed(), to_ranges(sorted(ranks))) for each, ranks in groups.items()],
            )
            for stretch, groups in alike.items()
        ]  # fmt: skip

    def _met(self, rings: Iterable[HeldRing], identity: str, known: _Shared) -> Iterator[MessageReport]:
        """Return messages of local members to and from others, and take them to have been told."""
        world, local = identity.rpartition(".")[0], set(known.local)
        elsewhere = numpy.array([rank not in local for rank in known.members])
        for held in rings:
            records = self._sums_of(held).take_messages(identity)
            if len(records) and held.names.get(world) in local:
                rank = held.names[world]
                sent, received = sides_told(records, known.members.index(rank), elsewhere)
                if len(sent) or len(received):
                    yield MessageReport(identity, rank, sent.tobytes(), received.tobytes())


def _shared_communicators(rings: Iterable[HeldRing]) -> Mapping[str, _Shared]:
    """Return the communicators of small jobs that have members here and elsewhere, by identity."""
    local: dict[str, set[_Rank]] = {}
    for held in rings:
        held.reader.read_texts()
        for world, rank in held.names.items():
            local.setdefault(world, set()).add(rank)
    found: dict[str, _Shared] = {}
    for held in rings:
        for known in held.reader.communicators.values():
            if known.identity not in found and _may_be_compared(held, known):
                members: Sequence[_Rank] = range(known.size) if known.ranks is None else known.ranks
                here = tuple(rank for rank in members if rank in local.get(known.world, ()))
                if 0 < len(here) < known.size:
                    found[known.identity] = _Shared(members, here)
    return found


def _may_be_compared(held: HeldRing, known: CommunicatorText) -> bool:
    """Say whether calls on a communicator are compared: not between two sides or two jobs, nor in a large job."""
    size = held.reader.worlds[known.world].size if known.world in held.names else 0
    return 0 < size <= LARGE and not is_inter(known.identity) and layout.OF_OTHER_JOB not in (known.ranks or ())
