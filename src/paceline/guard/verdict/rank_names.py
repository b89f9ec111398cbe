"""How ranks are called. Those of a job that has met another have numbers after its ranks, and names of their own.

A rank that was spawned is rank 1 of the spawned WORLD to whoever wrote the script, whatever number it has among all
that belong together. Every sentence names ranks by `name_ranks`. Which ranks have such names is known for as long as
the sentences about one snapshot are made: so no rule has to hand it on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from paceline.errors import name_ranks as name_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRank:
    """The rank that a process has in a world that people know it by."""

    rank: int
    world: str


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
    worlds: dict[str, list[int]] = {}
    for number in ordered:
        known = world_ranks.get(number)
        world, rank = ("", number) if known is None else (f" of {known.world}", known.rank)
        worlds.setdefault(world, []).append(rank)
    return " and ".join(f"{name_numbers(own)}{world}" for world, own in worlds.items()) or name_numbers(())


def name_rank(rank: int) -> str:
    """Name one rank.

    >>> name_rank(4)
    'rank 4'
    """
    return name_ranks((rank,))
