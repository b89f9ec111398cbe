"""The head's table of a large job: in which state each rank is, as a number, and which ranks stand for the others.

Ranks in the same state are a class. A few ranks of each class are followed: their hosts send their rings. The judge
looks at those alone. Numbers in, numbers out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy

_Array = numpy.ndarray[Any, numpy.dtype[Any]]
Run = tuple[int, int]  # ranks from begin to before end
_SPREAD, _WORD_MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1  # numbers that have few bits in common, by multiplication
MOST_FOLLOWED = 512  # ranks whose rings are held
_SMALL = 8  # a class of so few ranks is followed whole
_FEWEST = 3  # ranks that are followed of a large class


class RankTable:
    """The ranks of one world.

    Attributes:
        num_changes: Grows whenever something is told.
        num_left_out: Ranks that should be followed too, and for which there was no room at the last choice.
    """

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.num_changes = self.num_left_out = 0
        self._digests: _Array = numpy.zeros(world_size, dtype=numpy.uint64)
        self._hosts: _Array = numpy.full(world_size, -1, dtype=numpy.int32)

    def tell(self, host: int, digest: int, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Take in that ranks of a host are in a state; `MOVES` says that they may do anything.

        Raises:
            ValueError: There are no such ranks.
        """
        self.num_changes += 1
        for begin, end, step in ranges:
            self._check(begin, end, step)
            self._digests[begin:end:step] = digest
            self._hosts[begin:end:step] = host

    def tell_relayed(self, relay: int, relays: _Array, digest: int, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Take in through a relay that ranks are in a state: those whose hosts speak through it now, and no others.

        Args:
            relay: The number of the relay.
            relays: For each host the relay that it speaks through; the last one is for ranks of no host.
            digest: Their state.
            ranges: The ranks.

        Raises:
            ValueError: There are no such ranks.
        """
        self.num_changes += 1
        for begin, end, step in ranges:
            self._check(begin, end, step)
            is_own = relays[self._hosts[begin:end:step]] == relay
            self._digests[begin:end:step][is_own] = digest

    def _check(self, begin: int, end: int, step: int) -> None:
        if not 0 <= begin < end <= self.world_size or step < 1:
            raise ValueError("it tells of ranks that the job does not have")

    def distrust(self, host: int) -> None:
        """Take the ranks of a host to do anything."""
        self.num_changes += 1
        self._digests[self._hosts == host] = 0

    def host_of(self, rank: int) -> int:
        """Return the number of the host of a rank, -1 if nobody has told of it."""
        return int(self._hosts[rank])

    def hosts_of(self, runs: Iterable[Run]) -> list[int]:
        """Return the numbers of the hosts of ranks, each once."""
        found = [self._hosts[begin:end] for begin, end in runs]
        if not found:
            return []
        hosts: list[int] = (numpy.flatnonzero(numpy.bincount(numpy.concatenate(found) + 1)) - 1).tolist()
        return hosts

    def small_classes(self, ranks: Iterable[int]) -> list[int]:
        """Return those of some ranks that are in a state in which few ranks are, or that may do anything."""
        known = list(ranks)
        digests, counts = numpy.unique(self._digests, return_counts=True)
        large = {*digests[(counts > _SMALL) & (digests != 0)].tolist()}
        return [rank for rank in known if int(self._digests[rank]) not in large]

    def unseen(self) -> list[int]:
        """Return the ranks that nobody has told of."""
        ranks: list[int] = numpy.flatnonzero(self._hosts < 0).tolist()
        return ranks

    def to_follow(self, followed: Iterable[int], groups: Sequence[Sequence[int]]) -> list[int]:
        """Return the ranks that must be followed too, so that some of each class stand for it in each group of ranks.

        Args:
            followed: The ranks that are followed, or were asked for.
            groups: Members of communicators in which followed ranks wait; the whole world is always looked at.
        """
        chosen = numpy.zeros(self.world_size, dtype=bool)
        chosen[list(followed)] = True
        before = chosen.copy()
        for group in (range(self.world_size), *groups):
            members = self._members(group)
            for ranks, num in _wanted(members, self._digests[members]):
                _choose(chosen, ranks, num)
        for ranks in _parts(numpy.arange(self.world_size), self._keys(groups)):
            _choose(chosen, ranks, min(len(ranks), 2))  # not one: a sentence about one rank is about one
        new = numpy.flatnonzero(chosen & ~before)
        room = max(0, MOST_FOLLOWED - int(before.sum()))
        self.num_left_out = max(0, len(new) - room)
        found: list[int] = new[:room].tolist()
        return found

    def classes(self, followed: Sequence[int], groups: Sequence[Sequence[int]]) -> tuple[dict[int, _Array], _Array]:
        """Return for followed ranks the others that each stands for; and the ranks that nobody stands for.

        A rank stands for others that are in the same state and in the same of these groups.
        """
        known = numpy.asarray(followed, dtype=numpy.int64)
        keys = self._keys(groups)
        is_open = numpy.ones(self.world_size, dtype=bool)
        is_open[known] = False
        stands_for: dict[int, _Array] = {}
        distinct, first = numpy.unique(keys[known], return_index=True)
        places = numpy.minimum(numpy.searchsorted(distinct, keys), max(0, len(distinct) - 1))
        is_alike = is_open & (keys != 0) & (distinct[places] == keys) if len(distinct) else ~is_open
        for place, rank in enumerate(known[first].tolist()):
            stands_for[rank] = numpy.flatnonzero(is_alike & (places == place))
        return stands_for, numpy.flatnonzero(is_open & ~is_alike)

    def _members(self, group: Sequence[int]) -> _Array:
        """Return the ranks of a group that the world has: what a host tells may be damaged."""
        members = _as_array(group)
        return members[(members >= 0) & (members < self.world_size)]

    def _keys(self, groups: Sequence[Sequence[int]]) -> _Array:
        """Return what is equal for ranks in the same state and the same groups; 0 for ranks that move."""
        keys = self._digests.copy()
        for number, group in enumerate(groups, start=1):
            keys[self._members(group)] ^= numpy.uint64(number * _SPREAD & _WORD_MASK)
        keys[self._digests == 0] = 0
        return keys


def _as_array(ranks: Sequence[int]) -> _Array:
    """Return ranks as an array; numpy would count a range one by one."""
    if isinstance(ranks, range):
        return numpy.arange(ranks.start, ranks.stop, ranks.step, dtype=numpy.int64)
    return numpy.asarray(ranks, dtype=numpy.int64)


def runs_of(ranks: _Array) -> tuple[Run, ...]:
    """Return rising ranks as runs of begin and end.

    >>> runs_of(numpy.array([0, 1, 2, 7, 9, 10]))
    ((0, 3), (7, 8), (9, 11))
    """
    if not len(ranks):
        return ()
    breaks = numpy.flatnonzero(numpy.diff(ranks) != 1)
    begins = ranks[numpy.r_[0, breaks + 1]].tolist()
    ends = ranks[numpy.r_[breaks, len(ranks) - 1]].tolist()
    return tuple((begin, end + 1) for begin, end in zip(begins, ends, strict=True))


def _choose(chosen: _Array, ranks: _Array, num: int) -> None:
    missing = num - int(chosen[ranks].sum())
    if missing > 0:
        chosen[ranks[~chosen[ranks]][:missing]] = True


def _parts(members: _Array, keys: _Array) -> list[_Array]:
    """Return the members with the same key together, without those that move; nothing, if there are too many keys."""
    order = numpy.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = numpy.flatnonzero(numpy.r_[True, ordered[1:] != ordered[:-1]]) if len(order) else order
    if len(begins) > MOST_FOLLOWED:
        return []
    return [members[part] for part in numpy.split(order, begins[1:]) if len(part) and keys[part[0]]]


def _wanted(members: _Array, digests: _Array) -> list[tuple[_Array, int]]:
    """Return the ranks of each class, and how many of them are wanted."""
    parts = _parts(members, digests)
    return list(zip(parts, representatives([len(part) for part in parts]), strict=True))


def representatives(sizes: Sequence[int]) -> list[int]:
    """Return how many ranks of each class are followed: more of a larger one, and most of one that has most ranks.

    So who is the odd one out among them is the odd one out among all.

    >>> representatives([1, 102_399]), representatives([40_000, 40_000, 60_000]), representatives([4, 4])
    ([1, 3], [3, 3, 4], [4, 4])
    """
    wanted = [min(size, _SMALL) if size <= _SMALL else 0 for size in sizes]
    large = sorted({size for size in sizes if size > _SMALL})
    least = max(_FEWEST, 1 + max(wanted, default=0)) if any(wanted) else _FEWEST
    for number, size in enumerate(sizes):
        if size > _SMALL:
            wanted[number] = min(size, least + large.index(size))
    top = max(range(len(sizes)), key=sizes.__getitem__, default=None)
    if top is not None and sizes[top] > _SMALL and 2 * sizes[top] > sum(sizes):
        wanted[top] = max(wanted[top], min(sizes[top], 1 + sum(wanted) - wanted[top]))
    return wanted
