"""Which accesses to a window conflict: they share bytes, one of them writes, and nothing orders them.

What MPI allows is left out: reads, and updates of several members by one operator, since those are atomic. So are
writes of the same bytes to the same place, as when all ranks set a flag: their order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paceline.guard.rank.remarks.memory_table import MemoryTable
from paceline.guard.shared_memory.access_board import BY_LOCK, READS, UPDATES, Access
from paceline.guard.shared_memory.operations import REDUCTION_CODES

_FITS_ALL = frozenset(REDUCTION_CODES[name] for name in ("none", "NO_OP", "custom", "unknown"))
Conflict = tuple[Access, Access]


def conflict(one: Access, other: Access) -> bool:
    """Say whether two accesses conflict.

    >>> put = Access(origin=1, target=0, begin=0, end=8, does=1, content=5)
    >>> conflict(put, put._replace(content=6)), conflict(put, put._replace(begin=8, end=16))
    (True, False)
    """
    return collide(one, other) and is_unordered(one, other)


def collide(one: Access, other: Access) -> bool:
    """Say whether two accesses must not be made at the same time."""
    if one.target != other.target or one.end <= other.begin or other.end <= one.begin:
        return False
    if one.does == READS == other.does:
        return False
    if one.does == UPDATES == other.does:
        # those of one origin are carried out in their order
        return one.origin != other.origin and not _update_alike(one, other)
    return not (one.does == other.does and _write_alike(one, other))


def _write_alike(one: Access, other: Access) -> bool:
    """Say whether two writes may leave the same, whichever comes last."""
    is_same_place = (one.begin, one.end) == (other.begin, other.end)
    return is_same_place and (one.content == other.content or not (one.content and other.content))


def _update_alike(one: Access, other: Access) -> bool:
    """Say whether MPI makes two updates one after the other; of a reduction of the user's own nothing is known."""
    if one.reduction in _FITS_ALL or other.reduction in _FITS_ALL:
        return True
    return one.reduction == other.reduction and (one.dtype == other.dtype or not (one.dtype and other.dtype))


def is_unordered(one: Access, other: Access) -> bool:
    """Say whether it is certain that neither of two accesses comes before the other."""
    if one.order != other.order:
        return False
    if one.order != BY_LOCK:
        return one.first == other.first
    return not _may_precede(one, other) and not _may_precede(other, one)


def _may_precede(one: Access, other: Access) -> bool:
    """Say whether the origin of the other may have known that this one was complete.

    Nobody leaves a collective for which all wait before all have come. So who had not come to it yet when it reached
    out cannot know what others have done before it, unless they told it in another way.
    """
    return other.first > one.last or (other.first == one.last and not one.is_last_word)


def find_conflicts(accesses: Sequence[Access], others: Iterable[Access]) -> list[Conflict]:
    """Return accesses that conflict with others, one pair for each two lines."""
    tables: dict[int, MemoryTable] = {}
    for access in accesses:
        tables.setdefault(access.target, MemoryTable()).add(access, access.begin, access.end, access.does != READS)
    found: dict[tuple[int, int, int], Conflict] = {}
    for other in others:
        table = tables.get(other.target)
        for access in table.overlapping(other.begin, other.end) if table is not None else ():
            if conflict(access, other):
                found.setdefault((access.site, other.origin, other.site), (access, other))
    return list(found.values())


def find_conflicts_among(accesses: Sequence[Access]) -> list[Conflict]:
    """Return accesses of one epoch that conflict with each other, one pair for each two lines."""
    tables: dict[int, MemoryTable] = {}
    found: dict[tuple[int, ...], Conflict] = {}
    for access in accesses:
        table = tables.setdefault(access.target, MemoryTable())
        for earlier in table.overlapping(access.begin, access.end):
            if collide(earlier, access):
                found.setdefault((earlier.origin, earlier.site, access.origin, access.site), (earlier, access))
        table.add(access, access.begin, access.end, access.does != READS)
    return list(found.values())
