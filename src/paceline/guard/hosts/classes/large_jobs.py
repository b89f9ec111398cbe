"""Large jobs at the head: tables of states, whom to follow, and findings that name all ranks again.

A table that changes is left alone for a moment: a job that goes on changes it all the time, and is not looked at.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain

import numpy

from paceline.guard.hosts.classes.rank_table import MOST_FOLLOWED, RankTable
from paceline.guard.hosts.classes.reduced_job import ReducedJob
from paceline.guard.hosts.host_messages import MOST_RANKS, MOST_RINGS, WorldReport
from paceline.guard.observe.local_rings import HeldRing
from paceline.guard.observe.rank_starts import LaunchedJob, StartedRank
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.finding import Finding, RankGroup
from paceline.guard.verdict.rank_names import WorldRank

MOST_HOSTS = 16_384
_MOST_TOLD = 16 * MOST_RANKS  # ranks in all tables: some 200 MB
_MOST_NAMES = 64  # hosts of a group that are listed
_QUIET_SECONDS = 0.03  # for which a table must not have changed before ranks are chosen from it


class LargeJobs:
    """The large jobs of a run, by their worlds."""

    def __init__(self) -> None:
        self._tables: dict[str, RankTable] = {}
        self._relays = numpy.full(MOST_HOSTS + 1, -1, dtype=numpy.int32)  # through which each host speaks
        self._seen: dict[str, tuple[int, float]] = {}  # changes of a table, and when they were first seen
        self._chosen: dict[str, tuple[int, int]] = {}  # changes of a table and followed ranks, at the last choice
        self._full: set[str] = set()  # worlds in which not all ranks could be followed that should have been
        self._asked: dict[str, set[int]] = {}  # ranks that hosts were asked for, or that their hosts chose

    def take(self, host: int, report: WorldReport) -> None:
        """Take in the states of ranks of a host.

        Raises:
            ValueError: They do not fit the job.
        """
        if sum(len(range(*run)) for alike in report.alike for run in alike.ranks) > MOST_RINGS:
            raise ValueError(f"it tells of more than {MOST_RINGS} ranks")
        table = self._table(report)
        for alike in report.alike:
            table.tell(host, alike.digest, alike.ranks)

    def take_relayed(self, relay: int, report: WorldReport) -> None:
        """Take in the states of ranks of hosts that speak through a relay.

        Raises:
            ValueError: They do not fit the job.
        """
        table = self._table(report)
        for alike in report.alike:
            table.tell_relayed(relay, self._relays, alike.digest, alike.ranks)

    def note_relay(self, host: int, relay: int) -> None:
        """A host has told everything through a relay: from now on the relay tells the states of its ranks."""
        self._relays[host] = relay

    def _table(self, report: WorldReport) -> RankTable:
        table = self._tables.get(report.world)
        if table is None:
            if sum(known.world_size for known in self._tables.values()) + report.size > _MOST_TOLD:
                raise ValueError(f"there is no room for another job of {report.size} ranks")
            table = self._tables[report.world] = RankTable(report.size)
        if table.world_size != report.size:
            raise ValueError(f"it tells of {report.size} ranks of a job that has {table.world_size}")
        return table

    @property
    def tables(self) -> Mapping[str, RankTable]:
        """In which states all ranks of each large job are, by its world."""
        return self._tables

    def distrust(self, host: int) -> None:
        """Take the ranks of a host to do anything, whatever a relay says of them, until it has told everything."""
        self._relays[host] = -1
        for world, table in self._tables.items():
            table.distrust(host)
            self._asked.pop(world, None)  # it forgets what it was asked for

    def is_full(self, names: Sequence[str]) -> bool:
        """Say whether enough ranks of the job of this ring are held."""
        world = names[0].removeprefix("ring.").rpartition(".")[0] if names else ""
        held = self._asked.setdefault(world, set()) if world in self._tables else set()
        rank = names[0].rpartition(".")[2] if names else ""
        if world in self._tables and rank.isdecimal() and len(held) < 2 * MOST_FOLLOWED:
            held.add(int(rank))
        return len(held) >= 2 * MOST_FOLLOWED

    def split(self, rings: Mapping[int, HeldRing]) -> tuple[dict[int, HeldRing], dict[int, HeldRing]]:
        """Return the rings of large jobs, and all others."""
        large = {
            inode: held for inode, held in rings.items()
            if len(held.names) == 1 and next(iter(held.names)) in self._tables
        }  # fmt: skip
        return large, {inode: held for inode, held in rings.items() if inode not in large}

    def jobs(
        self,
        rings: Mapping[int, HeldRing],
        hidden: Set[int],
        early: Mapping[LaunchedJob, Mapping[int, StartedRank]],
    ) -> list[WatchedJob]:
        """Return the large jobs, as far as ranks of them are followed."""
        found: list[WatchedJob] = []
        for world, table in self._tables.items():
            ranks = {
                held.names[world]: held.rank for inode, held in rings.items()
                if world in held.names and held.rank is not None and inode not in hidden
            }  # fmt: skip
            if ranks:
                ended = early_ends(table.world_size, early)
                missed = {rank: one for rank, one in ended.items() if rank not in ranks and table.host_of(rank) < 0}
                found.append(ReducedJob(world, table, ranks, missed))
        return found

    def to_follow(self, jobs: Sequence[WatchedJob]) -> list[tuple[str, dict[int, list[int]]]]:
        """Return for each world the ranks to ask for, by the number of their host."""
        by_name = {job.name: job for job in jobs if isinstance(job, ReducedJob)}
        wanted = []
        for world, table in self._tables.items():
            job = by_name.get(world)
            followed = set(job.followed) if job is not None else set()
            state = table.num_changes, len(followed)
            if self._is_quiet(world, table) and self._chosen.get(world) != state:
                self._chosen[world] = state
                asked = self._asked.setdefault(world, set()) | followed
                groups = job.groups() if job is not None else []
                ranks = table.to_follow(asked, groups)
                self._full |= {world} if table.num_left_out else set()
                named = sorted((job.named_ranks() if job is not None else set()) - asked - set(ranks))
                ranks += named[: max(0, MOST_FOLLOWED - len(asked) - len(ranks))]
                self._asked[world] |= set(ranks)
                by_host: dict[int, list[int]] = {}
                for rank in ranks:
                    if table.host_of(rank) >= 0:
                        by_host.setdefault(table.host_of(rank), []).append(rank)
                wanted.append((world, by_host))
        return wanted

    def problems(self) -> list[str]:
        """Return for each job that has no room for more followed ranks what that means."""
        return [
            f"{MOST_FOLLOWED} of {self._tables[world].world_size:,} ranks are followed, and there is no room for more: "
            "ranks in states of their own may wait forever without a finding"
            for world in sorted(self._full)
        ]

    def _is_quiet(self, world: str, table: RankTable) -> bool:
        now = time.monotonic()
        seen = self._seen.get(world)
        if seen is None or seen[0] != table.num_changes:
            self._seen[world] = table.num_changes, now
            return False
        return now - seen[1] >= _QUIET_SECONDS

    def with_all_ranks(self, finding: Finding, job: ReducedJob, hosts: Sequence[str], *, here: str) -> Finding:
        """Return a finding about followed ranks as one about all ranks that they stand for, with their hosts."""
        table = self._tables[job.name]

        def named(group: RankGroup) -> RankGroup:
            ranks = _all_ranks(group.ranks, finding.world_ranks)
            numbers = table.hosts_of(_runs(group.ranks, finding.world_ranks))
            names = tuple(dict.fromkeys(hosts[host] if host >= 0 else here for host in numbers[:_MOST_NAMES]))
            return replace(group, ranks=ranks, hosts=names, num_hosts=len(numbers) if numbers[_MOST_NAMES:] else 0)

        difference = finding.first_difference
        if difference is not None:
            difference = replace(difference, groups=tuple(map(named, difference.groups)))
        return replace(
            finding,
            ranks=_all_ranks(finding.ranks, finding.world_ranks),
            groups=tuple(map(named, finding.groups)),
            first_difference=difference,
            explanations=tuple(
                replace(one, ranks=_all_ranks(one.ranks, finding.world_ranks)) for one in finding.explanations
            ),
            world_ranks={},
        )


def early_ends(world_size: int, early: Mapping[LaunchedJob, Mapping[int, StartedRank]]) -> Mapping[int, StartedRank]:
    """Return the ranks that ended before they joined a job; none if several launched jobs have as many ranks."""
    found = [ranks for job, ranks in early.items() if job.size == world_size]
    return found[0] if len(found) == 1 else {}


def _all_ranks(numbers: Sequence[int], world_ranks: Mapping[int, WorldRank]) -> tuple[int, ...]:
    return tuple(chain.from_iterable(range(*run) for run in _runs(numbers, world_ranks)))  # a rank is in one run alone


def _runs(numbers: Sequence[int], world_ranks: Mapping[int, WorldRank]) -> list[tuple[int, int]]:
    return sorted(run for number in numbers for run in world_ranks[number].runs)
