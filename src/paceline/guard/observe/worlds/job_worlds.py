"""Which processes make one job, and which rank of it each is. Names and numbers in, numbers out.

A process is a member of one or more worlds: mpi4py's, and one for each time that it initialises torch. Their sizes may
differ: where no mpiexec has started it, a process is alone in MPI's world; a torch job may be part of an MPI job. The
rules:

- A world of one matters to nobody once its process is in a larger one.
- Processes that share a world are of one job, and so are those that are linked through several worlds: what they wait
  for may be a chain over all of them.
- The largest world names the job and numbers its ranks; of equal ones, that which was joined first. Ranks of its other
  worlds are translated, each world by itself.
- A rank of such a world that has not been seen is taken for a rank of the job that has not joined that world yet, if
  the world has a place for every rank of the job. Otherwise it gets a number after all others: nobody knows its state.
- Two jobs that have met (parents and the ranks that they spawned, a server and its clients) are one as well: what they
  wait for may be on the other side. The ranks of the second get numbers after those of the first, and keep their names.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paceline.errors import name_ranks
from paceline.guard.verdict.rank_names import WorldRank


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldMember:
    """A process in one of its worlds."""

    process: Hashable
    world: str
    size: int  # of the world
    rank: int  # in the world


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMembers:
    """A job: its processes and its worlds.

    Attributes:
        name: The name of the world that numbers the ranks.
        world_size: The number of ranks in that world.
        processes: The processes that have been seen, by their rank in the job.
        worlds: For each world of the job: the rank in the job, by the rank in that world.
        num_numbers: More than any rank of the job, those that have not been seen included.
        world_ranks: The ranks that have another number in the world that people know them by.
    """

    name: str
    world_size: int
    processes: Mapping[int, Hashable]
    worlds: Mapping[str, Mapping[int, int]]
    num_numbers: int
    world_ranks: Mapping[int, WorldRank] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Two worlds that have met, and what to call the second."""

    first: str
    second: str
    name: str


def join_linked(jobs: Sequence[JobMembers], links: Iterable[Link]) -> list[JobMembers]:
    """Return the jobs, with those put together that have met.

    >>> members = [("p", 0), ("p", 1), ("s", 1)]
    >>> parents, spawned = group_into_jobs(
    ...     WorldMember(process=f"{world}{rank}", world=world, size=2, rank=rank) for world, rank in members
    ... )
    >>> (job,) = join_linked([parents, spawned], [Link(first="p", second="s", name="the spawned WORLD")])
    >>> job.processes, job.world_ranks[3]
    ({0: 'p0', 1: 'p1', 3: 's1'}, WorldRank(rank=1, world='the spawned WORLD', others=()))
    """
    joined = list(jobs)
    for link in links:
        first = next((job for job in joined if link.first in job.worlds), None)
        second = next((job for job in joined if link.second in job.worlds), None)
        if first is not None and second is not None and first is not second:
            joined[joined.index(first)] = _join(first, second, link.name)
            joined.remove(second)
    return joined


def _join(first: JobMembers, second: JobMembers, name: str) -> JobMembers:
    begin = first.num_numbers
    times = len({known.world for known in first.world_ranks.values() if known.world.startswith(name)})
    name = name if not times else f"{name} {times + 1}"
    own = {number: WorldRank(rank=number, world=name) for number in range(second.num_numbers)}
    world_ranks = {**own, **second.world_ranks}
    shifted = {
        world: {rank: begin + number for rank, number in numbers.items()} for world, numbers in second.worlds.items()
    }
    return JobMembers(
        name=first.name,
        world_size=begin + second.world_size,
        processes={**first.processes, **{begin + number: process for number, process in second.processes.items()}},
        worlds={**first.worlds, **shifted},
        num_numbers=begin + second.num_numbers,
        world_ranks={**first.world_ranks, **{begin + number: known for number, known in world_ranks.items()}},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfSight:
    """Ranks of a job that are not seen.

    Attributes:
        ranks: Which they are; at least one.
        world_size: How many ranks the job has.
        num_local: How many of them are on this machine, if the launcher says so.
        head: Where watchers of other hosts are to call, if they are expected to.
    """

    ranks: tuple[int, ...]
    world_size: int
    num_local: int | None = None
    head: str = ""

    @property
    def text(self) -> str:
        """What the user must know of it.

        >>> print(OutOfSight(ranks=(3,), world_size=4, num_local=3).text)
        rank 3 of 4 is not seen from here, so nobody notices if it fails or waits: the launcher has started 3 of 4 \
ranks on this machine, and the others elsewhere. What is seen here is judged; who of all ranks is out of line is not \
told
        """
        one = len(self.ranks) == 1
        why = (
            f"the launcher has started {self.num_local} of {self.world_size} ranks on this machine, and the others "
            "elsewhere"
        )
        if self.num_local is None or self.num_local >= self.world_size:
            why = (
                f"{'it runs' if one else 'they run'} on another machine, or started without Paceline's hooks, because "
                "PYTHONPATH and PACELINE_RUN_FOLDER did not reach Python there (python -I, a launcher that hands on no "
                "variables)"
            )
        if self.head:
            why = (
                "no watcher of their hosts has called; does Python start there with our variables (PYTHONPATH and "
                f"PACELINE_HEAD), has it paceline[hosts] and the same key, and does it reach {self.head}"
            )
        return (
            f"{name_ranks(self.ranks)} of {self.world_size} {'is' if one else 'are'} not seen from here, so nobody "
            f"notices if {'it fails or waits' if one else 'they fail or wait'}: {why}. What is seen here is judged; "
            "who of all ranks is out of line is not told"
        )


def group_into_jobs(members: Iterable[WorldMember]) -> list[JobMembers]:
    """Return the jobs of all processes; `members` are in the order in which each process joined its worlds.

    >>> in_mpi = [WorldMember(process=process, world=f"mpi{process}", size=1, rank=0) for process in "ab"]
    >>> in_torch = [WorldMember(process=process, world="torch", size=2, rank="ba".index(process)) for process in "ab"]
    >>> [(job.name, job.processes) for job in group_into_jobs([*in_mpi, *in_torch])]
    [('torch', {1: 'a', 0: 'b'})]
    """
    members = list(members)
    in_larger = {member.process for member in members if member.size > 1}
    members = [member for member in members if member.size > 1 or member.process not in in_larger]
    return [_job_of(linked) for linked in _linked(members)]


def _linked(members: Sequence[WorldMember]) -> list[list[WorldMember]]:
    """Return the members in sets that share no process and no world with one another."""
    first: dict[Hashable, Hashable] = {}  # of each process and each world: another of its set; of the last one: itself

    def find(thing: Hashable) -> Hashable:
        while first.setdefault(thing, thing) != thing:
            first[thing] = thing = first[first[thing]]
        return thing

    for member in members:
        first[find(("process", member.process))] = find(("world", member.world))
    sets: dict[Hashable, list[WorldMember]] = {}
    for member in members:
        sets.setdefault(find(("world", member.world)), []).append(member)
    return list(sets.values())


def _job_of(members: Sequence[WorldMember]) -> JobMembers:
    sizes: dict[str, int] = {}
    joined: dict[str, int] = {}  # world -> how many worlds its members had joined before
    num_joined: dict[Hashable, int] = {}
    for member in members:
        sizes[member.world] = member.size
        before = num_joined.setdefault(member.process, 0)
        joined[member.world] = min(joined.get(member.world, before), before)
        num_joined[member.process] += 1
    name = min(sizes, key=lambda world: (-sizes[world], joined[world], world))
    numbers = {member.process: member.rank for member in members if member.world == name}
    _place_others(numbers, list(num_joined), sizes[name])
    worlds = {name: {rank: rank for rank in range(sizes[name])}}
    num_numbers = max(sizes[name], *(number + 1 for number in numbers.values()))
    for world in sizes.keys() - {name}:
        seen = {member.rank: numbers[member.process] for member in members if member.world == world}
        unseen = [rank for rank in range(sizes[world]) if rank not in seen]
        free = [number for number in range(num_numbers) if number not in set(seen.values())]
        if sizes[world] != sizes[name] or len(free) < len(unseen):
            free = list(range(num_numbers, num_numbers + len(unseen)))
            num_numbers += len(unseen)
        worlds[world] = seen | _pair(unseen, free)
    processes = {number: process for process, number in numbers.items()}
    return JobMembers(name=name, world_size=sizes[name], processes=processes, worlds=worlds, num_numbers=num_numbers)


def _place_others(numbers: dict[Hashable, int], processes: Sequence[Hashable], world_size: int) -> None:
    """Give a number to processes of the job that are not in the world that numbers it, or not yet."""
    others = [process for process in processes if process not in numbers]
    taken = set(numbers.values())
    free = [rank for rank in range(world_size) if rank not in taken]
    if len(free) < len(others):
        free = list(range(world_size, world_size + len(others)))
    numbers.update(zip(others, free, strict=False))


def _pair(ranks: Sequence[int], numbers: Sequence[int]) -> dict[int, int]:
    """Pair ranks of a world with ranks of the job: with the same number where that is free, the others in order."""
    same = set(ranks) & set(numbers)
    rest = zip((rank for rank in ranks if rank not in same), (number for number in numbers if number not in same),
               strict=False)  # fmt: skip
    return {rank: rank for rank in same} | dict(rest)
