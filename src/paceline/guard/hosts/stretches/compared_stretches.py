"""Sums of stretches side by side, as the head gets them: where do members of a communicator differ?

A difference of sums accuses nobody. It says where calls are worth to be fetched and compared themselves. What hosts
tell may be lost, repeated or late; sums that are not there are not compared. Numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from paceline.guard.hosts.stretches.stretch import MOST_LEVEL, Stretch, Sums

_Host = TypeVar("_Host", bound=Hashable)
_Rank = int
MOST_COMMUNICATORS = 256
_MOST_STRETCHES = 128  # of one rank that wait for those of others


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion(Generic[_Host]):
    """A stretch in which members of a communicator may have called differently.

    Attributes:
        communicator: Its identity.
        stretch: Where.
        alike: The ranks with equal sums.
        hosts: Who has told of each rank.
        is_by_unknown: Whether that may be because some know arguments that others do not.
    """

    communicator: str
    stretch: Stretch
    alike: tuple[tuple[_Rank, ...], ...]
    hosts: Mapping[_Rank, _Host]
    is_by_unknown: bool

    @property
    def first_ranks(self) -> frozenset[_Rank]:
        """The ranks whose calls are looked at first: one for each sum."""
        return frozenset(ranks[0] for ranks in self.alike)

    @property
    def kind(self) -> str:
        """What else may be suspected of the same communicator, and is left alone by itself."""
        return "unknown argument" if self.is_by_unknown else "call"

    @property
    def may_wait(self) -> bool:
        """Whether it is worth to be looked at after others."""
        return not self.is_by_unknown


@dataclass(slots=True)
class _Compared(Generic[_Host]):
    """What was told of one communicator."""

    num_members: int
    sums: dict[_Rank, dict[Stretch, Sums]] = field(default_factory=dict)
    hosts: dict[_Rank, _Host] = field(default_factory=dict)
    top: int = 0  # the highest level that was told

    def take(self, host: _Host, rank: _Rank, stretch: Stretch, sums: Sums) -> None:
        self.hosts[rank], self.top = host, max(self.top, stretch.level)
        held = self.sums.setdefault(rank, {})
        held[stretch] = sums
        if len(held) > _MOST_STRETCHES:
            del held[min(held, key=lambda each: each.end)]

    def sums_of(self, rank: _Rank, stretch: Stretch) -> Sums | None:
        """Return the sums of a rank in a stretch, put together if they were told in parts."""
        held = self.sums[rank]
        if stretch in held or stretch.level == 0:
            return held.get(stretch)
        first = self.sums_of(rank, stretch.halves[0])
        second = self.sums_of(rank, stretch.halves[1]) if first is not None else None
        return first + second if first is not None and second is not None else None

    def all_in(self, stretch: Stretch) -> dict[_Rank, Sums] | None:
        """Return the sums of all members in a stretch; None if one is missing."""
        found = {}
        for rank in self.sums:
            sums = self.sums_of(rank, stretch)
            if sums is None:
                return None
            found[rank] = sums
        return found

    def drop(self, stretch: Stretch) -> None:
        """Forget what was compared."""
        for held in self.sums.values():
            for each in [each for each in held if stretch.begin <= each.begin and each.end <= stretch.end]:
                del held[each]


class ComparedStretches(Generic[_Host]):
    """The sums of all communicators."""

    def __init__(self) -> None:
        self._compared: dict[str, _Compared[_Host]] = {}  # the one that was told of last is the last

    def take(
        self, host: _Host, communicator: str, num_members: int, stretch: Stretch, sums: Iterable[tuple[_Rank, Sums]]
    ) -> list[Suspicion[_Host]]:
        """Take in what a host tells; return where members differ, now that all of them are known."""
        known = self._compared.pop(communicator, None)
        if known is None or known.num_members != num_members:
            known = _Compared(num_members)
        self._compared[communicator] = known
        if len(self._compared) > MOST_COMMUNICATORS:
            del self._compared[next(iter(self._compared))]
        for rank, each in sums:
            known.take(host, rank, stretch, each)
        if len(known.sums) > num_members:  # somebody tells of ranks that are no members
            del self._compared[communicator]
        if len(known.sums) != num_members:
            return []
        return list(self._differences(communicator, known, stretch))

    def _differences(self, communicator: str, known: _Compared[_Host], stretch: Stretch) -> Iterator[Suspicion[_Host]]:
        """Compare the smallest stretch around one that was told in which all members are known."""
        while stretch.level <= min(known.top, MOST_LEVEL):
            found = known.all_in(stretch)
            if found is not None:
                known.drop(stretch)
                alike: dict[Sums, list[_Rank]] = {}
                for rank, sums in found.items():
                    alike.setdefault(sums, []).append(rank)
                if len(alike) > 1:
                    yield Suspicion(
                        communicator=communicator, stretch=stretch, alike=tuple(map(tuple, alike.values())),
                        hosts=dict(known.hosts), is_by_unknown=may_be_unknown(alike),
                    )  # fmt: skip
                return
            stretch = stretch.whole

    def forget(self, host: _Host) -> None:
        """Forget what a host has told: it is not heard of, or has told what cannot be used."""
        for known in self._compared.values():
            for rank in [rank for rank, teller in known.hosts.items() if teller == host]:
                known.hosts.pop(rank)
                known.sums.pop(rank)


def may_be_unknown(alike: Collection[Sums]) -> bool:
    """Say whether sums differ only where ranks do not know the same arguments: then they may have called alike."""
    by_knowledge: dict[int, set[int]] = {}
    for sums in alike:
        by_knowledge.setdefault(sums.unknown, set()).add(sums.arguments)
    same_operations = len({sums.operations for sums in alike}) == 1
    return same_operations and all(len(arguments) == 1 for arguments in by_knowledge.values())
