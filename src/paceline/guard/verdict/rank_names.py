"""How ranks are called. Those of a job that has met another have numbers after its ranks, and names of their own.

Of a large job only some ranks are looked at, and each stands for others that are in the same state: then they have
numbers of their own too, and a sentence that names one names all that it stands for.

A rank that was spawned is rank 1 of the spawned WORLD to whoever wrote the script, whatever number it has among all
that belong together. Every sentence names ranks by `name_ranks`. Which ranks have such names is known for as long as
the sentences about one snapshot are made: so no rule has to hand it on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from paceline.errors import name_ranks as name_numbers
from paceline.errors import name_runs

_MOST_HOSTS = 4  # that are named
_MANY_HOSTS = 32  # from which on ranks are counted and not named; the sentence of the finding names them


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRank:
    """The rank that a process has in a world that people know it by.

    Attributes:
        rank: The rank.
        world: The name of the world; empty if it is the job itself.
        others: Ranks that are in the same state, and for which it stands, as runs of begin and end: they may be many.
    """

    rank: int
    world: str
    others: tuple[tuple[int, int], ...] = ()

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """All ranks that are meant, as runs of begin and end."""
        return ((self.rank, self.rank + 1), *self.others)


_NO_WORLD_RANKS: Mapping[int, WorldRank] = {}
_WORLD_RANKS: ContextVar[Mapping[int, WorldRank]] = ContextVar("world_ranks", default=_NO_WORLD_RANKS)


@contextmanager
def naming(world_ranks: Mapping[int, WorldRank]) -> Iterator[None]:
    """Call these ranks by their names in other worlds until the end of the block."""
    token = _WORLD_RANKS.set(world_ranks)
    try:
        yield
    finally:
        _WORLD_RANKS.reset(token)


def current_world_ranks() -> Mapping[int, WorldRank]:
    """Return the ranks that have names in other worlds now."""
    return _WORLD_RANKS.get()


def name_ranks(ranks: Iterable[int]) -> str:
    """Name ranks briefly, each as people know it.

    >>> with naming({2: WorldRank(rank=0, world="the spawned WORLD"), 3: WorldRank(rank=1, world="the spawned WORLD")}):
    ...     name_ranks([0, 1, 3])
    'ranks 0-1 and rank 1 of the spawned WORLD'
    """
    world_ranks, ordered = _WORLD_RANKS.get(), sorted(ranks)
    if not world_ranks:
        return name_numbers(ordered)
    worlds: dict[str, list[tuple[int, int]]] = {}
    for number in ordered:
        known = world_ranks.get(number, WorldRank(rank=number, world=""))
        worlds.setdefault(f" of {known.world}" if known.world else "", []).extend(known.runs)
    return " and ".join(f"{name_runs(own)}{world}" for world, own in worlds.items()) or name_numbers(())


def name_rank(rank: int) -> str:
    """Name one rank, and none that it stands for.

    >>> name_rank(4)
    'rank 4'
    >>> with naming({4: WorldRank(rank=40, world="", others=((50, 51), (60, 62)))}):
    ...     name_rank(4), name_ranks((4,))
    ('rank 40', 'ranks 40, 50, 60-61')
    """
    known = _WORLD_RANKS.get().get(rank)
    if known is None:
        return name_numbers((rank,))
    return f"{name_numbers((known.rank,))}{f' of {known.world}' if known.world else ''}"


def name_with_hosts(ranks: Sequence[int], hosts: Sequence[str], num_hosts: int = 0) -> str:
    """Name ranks, with their hosts if there are several in the job. More hosts than are listed have a number.

    >>> name_with_hosts((6,), ("n3",)), name_with_hosts(range(102_399), ("n0", "n1"), 12_800)
    ('rank 6 (n3)', '102,399 ranks on 12,800 hosts')
    """
    num_hosts = num_hosts or len(hosts)
    if not num_hosts:
        return name_ranks(ranks)
    if num_hosts > _MANY_HOSTS:
        return f"{len(ranks):,} ranks on {num_hosts:,} hosts"
    names = ", ".join(hosts) if num_hosts <= _MOST_HOSTS else f"{num_hosts} hosts"
    return f"{name_ranks(ranks)} ({names})"
