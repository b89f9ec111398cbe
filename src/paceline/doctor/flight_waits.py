"""Who waits for whom, by the members of groups: what the dumps of a Flight Recorder say together. A pure function.

A rank waits in each collective that it has enqueued and that is not complete. Members of the group that have not
enqueued it are waited for. Those of them who wait for nobody are the place to look: the others may only pass it on.
Dumps are made some time after the event, and not all at once, so this is a place to look and no proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from paceline.errors import name_ranks

_MOST_NAMED = 4  # ranks of which a sentence says how far each has come


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One call of one rank, as torch has recorded it."""

    group: str
    sequence: int
    operation: str
    sizes: str
    site: str
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """What one rank has left: its last calls, the groups that it knows, and how far it has come in each."""

    entries: tuple[Entry, ...] = ()
    members: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # group -> ranks
    enqueued: Mapping[str, int] = field(default_factory=dict)  # group -> its last call, if that is told

    def position(self, group: str, past: GroupPositions) -> int:
        """Return the last call of a group that the rank has enqueued; -1 if the dump has none."""
        return max(past.last.get(group, -1), self.enqueued.get(group, -1))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositions:
    """What the calls of a rank say of each group: the last one, and the first that is not complete."""

    last: Mapping[str, int]
    first_open: tuple[Entry, ...]  # those behind it wait for it


def _past_of(entries: Sequence[Entry]) -> GroupPositions:
    last: dict[str, int] = {}
    first: dict[str, Entry] = {}
    for entry in entries:
        last[entry.group] = max(entry.sequence, last.get(entry.group, -1))
        if not entry.is_done and (entry.group not in first or entry.sequence < first[entry.group].sequence):
            first[entry.group] = entry
    return GroupPositions(last=last, first_open=tuple(first.values()))


def _pasts(dumps: Mapping[int, Dump]) -> dict[int, GroupPositions]:
    """Return the past of each rank. Ranks with the same list of calls have one in common: most of a large job."""
    known = {id(dump.entries): dump.entries for dump in dumps.values()}
    pasts = {number: _past_of(entries) for number, entries in known.items()}
    return {rank: pasts[id(dump.entries)] for rank, dump in dumps.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Ranks that wait in one call of a group, and the members that have not enqueued it."""

    entry: Entry
    waiting: tuple[int, ...]
    waited_for: tuple[int, ...]


def find_waits(dumps: Mapping[int, Dump]) -> list[Wait]:
    """Return the first open call of each group in which ranks wait for members that have not enqueued it."""
    pasts = _pasts(dumps)
    members = _members(dumps, pasts)
    found: dict[tuple[str, int], tuple[Entry, list[int]]] = {}
    for rank in sorted(dumps):
        for entry in pasts[rank].first_open:
            found.setdefault((entry.group, entry.sequence), (entry, []))[1].append(rank)
    waits = []
    for (group, sequence), (entry, waiting) in sorted(found.items(), key=lambda item: item[0]):
        late = tuple(
            rank
            for rank in sorted({*members[group]} - {*waiting})
            if rank not in dumps or dumps[rank].position(group, pasts[rank]) < sequence
        )
        if late:
            waits.append(Wait(entry=entry, waiting=tuple(waiting), waited_for=late))
    return waits


def where_to_look(waits: Sequence[Wait]) -> tuple[int, ...]:
    """Return the ranks that are waited for and wait for nobody.

    >>> call = Entry(group="0", sequence=1, operation="barrier", sizes="", site="a.py:1", is_done=False)
    >>> chain = [Wait(entry=call, waiting=(rank,), waited_for=(rank + 1,)) for rank in range(2)]
    >>> where_to_look(chain)
    (2,)
    """
    waiting = {rank for wait in waits for rank in wait.waiting}
    return tuple(sorted({rank for wait in waits for rank in wait.waited_for} - waiting))


def waits_as_text(waits: Sequence[Wait], dumps: Mapping[int, Dump]) -> list[str]:
    """Say who waits for whom, and where to look."""
    sentences = []
    for wait in waits:
        entry, late = wait.entry, wait.waited_for
        how_far = ", ".join(f"rank {rank} {_how_far(dumps.get(rank), entry)}" for rank in late[:_MOST_NAMED])
        more = f" and {len(late) - _MOST_NAMED} more" if len(late) > _MOST_NAMED else ""
        sentences.append(
            f"{name_ranks(wait.waiting)} in call {entry.sequence} of group {entry.group}, {entry.operation} at "
            f"{entry.site}, for {name_ranks(late)}; when the dumps were made, those had come only so far: "
            f"{how_far}{more}"
        )
    look_at = where_to_look(waits)
    if look_at:
        sentences.append(f"probably the place to look: {name_ranks(look_at)}, waited for, and seen to wait for nobody")
    return sentences


def _how_far(dump: Dump | None, entry: Entry) -> str:
    if dump is None:
        return "left no dump"
    position = dump.position(entry.group, _past_of(dump.entries))
    if position >= 0:
        return f"to call {position}"
    return "to no call of this group" if dump.entries else "left a dump without calls"


def _members(dumps: Mapping[int, Dump], pasts: Mapping[int, GroupPositions]) -> dict[str, tuple[int, ...]]:
    """Return the members of each group: as the dumps tell them, else those who have made a call there."""
    seen: dict[str, set[int]] = {}
    for rank, past in pasts.items():
        for group in past.last:
            seen.setdefault(group, set()).add(rank)
    members = {group: tuple(sorted(ranks)) for group, ranks in seen.items()}
    for _, dump in sorted(dumps.items()):
        members.update(dump.members)
    return members
