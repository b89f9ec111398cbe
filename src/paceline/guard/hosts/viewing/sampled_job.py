"""A large job as a view shows it: some of its ranks, evenly spread, and those that the judge follows.

Who is shown is asked by rank. Nobody is followed because of it: looking at a job must not change how it is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice

from paceline.guard.hosts.classes.rank_table import RankTable
from paceline.guard.hosts.classes.reduced_job import ReducedJob
from paceline.guard.observe.glances import Glance, glance_at
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.observe.worlds.job_worlds import JobMembers
from paceline.guard.verdict.snapshot import End

_NUM_SPREAD = 8  # ranks that are shown of any large job
_MOST_SHOWN = 64
_MOST_WAITED_FOR = 1024


def ranks_to_show(table: RankTable, reduced: ReducedJob | None) -> list[int]:
    """Return the ranks of a large job that are shown, as far as hosts tell of them or they are here."""
    followed = set(reduced.followed) if reduced is not None else set()
    step = -(-table.world_size // _NUM_SPREAD)
    spread = [rank for rank in range(0, table.world_size, step) if table.host_of(rank) >= 0 or rank in followed]
    return [*spread, *sorted(followed - set(spread))][:_MOST_SHOWN]


def sampled_job(
    world: str, table: RankTable, told: Mapping[int, Glance], hosts: Sequence[str], reduced: ReducedJob | None
) -> SampledJob:
    """Return a large job as it is shown.

    Args:
        world: The name of its world.
        table: In which states its ranks are, and on which hosts.
        told: What hosts have told of ranks that are shown.
        hosts: The names of all hosts.
        reduced: The job of the followed ranks; None if nobody is followed.
    """
    shown = set(ranks_to_show(table, reduced))
    followed = {} if reduced is None else {reduced.followed[number]: rank for number, rank in reduced.ranks.items()}
    here = {rank: held for rank, held in followed.items() if rank in shown and not held.process.host}
    names = {rank: hosts[table.host_of(rank)] for rank in {*told, *followed} if table.host_of(rank) >= 0}
    return SampledJob(world, table.world_size, told, here, names, reduced)


class SampledJob(WatchedJob):
    """Some ranks of one large world.

    Args:
        world: The name of the world.
        num_ranks: Of the whole job.
        told: What ranks do, as their hosts have told.
        here: Ranks of this host that are shown.
        hosts: The names of the hosts of others.
        reduced: The job of the followed ranks; None if nobody is followed.
    """

    def __init__(
        self,
        world: str,
        num_ranks: int,
        told: Mapping[int, Glance],
        here: Mapping[int, WatchedRank],
        hosts: Mapping[int, str],
        reduced: ReducedJob | None,
    ) -> None:
        members = JobMembers(name=world, world_size=num_ranks, processes={}, worlds={}, num_numbers=num_ranks)
        super().__init__(members, {})
        self._told, self._here, self._host_names, self._reduced = told, here, hosts, reduced

    @property
    def is_spread(self) -> bool:
        """Whether ranks of it run on other hosts."""
        return True

    def shown_ranks(self) -> list[int]:
        """Return the ranks that are shown: those of which something is known."""
        followed = self._reduced.followed if self._reduced is not None else ()
        return sorted({*self._told, *self._here, *(rank for rank in followed if self.end(rank) is not None)})

    def glances(self, num_calls: int) -> dict[int, Glance]:
        """Return what they do: of those elsewhere, as their hosts have told."""
        here = {rank: glance_at(held.reader, num_calls=num_calls) for rank, held in self._here.items()}
        return {rank: here.get(rank) or self._told.get(rank, Glance()) for rank in self.shown_ranks()}

    def host_of(self, rank: int) -> str:
        """Return the name of the host of a rank; empty if it is this one."""
        return self._host_names.get(rank, "")

    def end(self, rank: int) -> End | None:
        """Return how a rank has ended, if it is followed; None while it lives."""
        known = self._reduced is not None and rank in self._reduced.numbers
        return self._reduced.end(self._reduced.numbers[rank]) if known and self._reduced is not None else None

    def has_ended(self) -> bool:
        """Say whether every rank that is followed has exited."""
        return self._reduced is not None and self._reduced.has_ended() and not self._told

    def waited_for(self) -> set[int]:
        """Return the ranks that others wait for, also those that are not shown; of very many the first."""
        if self._reduced is None:
            return set()
        runs = [run for number in self._reduced.waited_for() for run in self._reduced.world_ranks[number].runs]
        return set(islice(chain.from_iterable(range(*run) for run in sorted(runs)), _MOST_WAITED_FOR))
