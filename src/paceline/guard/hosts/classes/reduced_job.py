"""A large job as the judge sees it: the ranks that are followed, each of which stands for others in the same state.

The judge gets a job of some hundred ranks, with numbers of their own. Ranks for which nobody stands are one more rank,
the rest, of which nothing is known: it may do anything, as they may. What is concluded of the small job holds for the
large one: a rank waits in the small job for somebody who never comes only if it does in the large one, since all that
is left out are members that are in the same state as one that is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.guard.hosts.classes.rank_table import RankTable, runs_of
from paceline.guard.observe.rank_starts import StartedRank
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.observe.worlds.job_worlds import JobMembers, OutOfSight
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.ring_texts import CommunicatorText
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.member_numbers import MembersLeft, members_left, with_member_numbers
from paceline.guard.verdict.rank_names import WorldRank
from paceline.guard.verdict.snapshot import Call, Membership, RankState, Snapshot, is_inter


class ReducedJob(WatchedJob):
    """The followed ranks of one world.

    Args:
        world: The name of the world.
        table: In which state all ranks are.
        ranks: The followed ones, by their rank in the world.
        early: Ranks that have ended before they joined, by their rank in the world.
    """

    stands_for_others = True

    def __init__(
        self, world: str, table: RankTable, ranks: Mapping[int, WatchedRank], early: Mapping[int, StartedRank]
    ) -> None:
        self.followed = sorted({*ranks, *early})
        self.numbers = {rank: number for number, rank in enumerate(self.followed)}
        self._table, self._world = table, world
        self._num_changes = -1
        self._rest: frozenset[int] = frozenset()
        num = len(self.followed) + 1  # the last one is the rest
        members = JobMembers(
            name=world, world_size=num, processes={}, worlds={world: self.numbers}, num_numbers=num,
        )  # fmt: skip
        super().__init__(
            members,
            {self.numbers[rank]: held for rank, held in ranks.items()},
            {self.numbers[rank]: started for rank, started in early.items()},
            starting=frozenset((num - 1,)),
        )
        self._members: dict[str, MembersLeft] = {}
        self.note_table()

    def note_table(self) -> None:
        """Take in who stands for whom now."""
        if self._num_changes == self._table.num_changes:
            return
        self._num_changes = self._table.num_changes
        stands_for, rest = self._table.classes(self.followed, self.groups())
        self.world_ranks = {
            number: WorldRank(rank=rank, world="", others=runs_of(stands_for[rank]) if rank in stands_for else ())
            for rank, number in self.numbers.items()
        }
        if len(rest):
            self.world_ranks[len(self.followed)] = WorldRank(rank=int(rest[0]), world="", others=runs_of(rest[1:]))
        self._rest = frozenset(rest.tolist())
        self._members.clear()

    def has_given(self, finding: Finding) -> bool:
        """Say whether a finding is about this job: one about another job calls ranks by other numbers or worlds."""
        own = {number: rank for rank, number in self.numbers.items()}
        rest = len(self.followed)
        return bool(finding.world_ranks) and all(
            not known.world and (number == rest or own.get(number) == known.rank)
            for number, known in finding.world_ranks.items()
        )

    def out_of_sight(self) -> OutOfSight | None:
        """Return the ranks that no host tells of; None if there are none."""
        unseen = tuple(rank for rank in self._table.unseen() if rank not in self.numbers)
        size = self._table.world_size
        return OutOfSight(ranks=unseen, world_size=size, num_local=None) if unseen else None

    def marks(self) -> dict[int, tuple[int, ...]]:
        """Return what changes whenever a followed rank does anything, or another comes to be in another state."""
        self.note_table()
        marks = super().marks()
        if marks:
            rest = [0] * len(next(iter(marks.values())))
            rest[layout.NUM_RECORDS] = self._num_changes
            marks[len(self.followed)] = tuple(rest)
        return marks

    def groups(self) -> list[Sequence[int]]:
        """Return the members of communicators that matter: in which ranks wait, or that the odd ones have used.

        Those that have all ranks are left out.
        """
        found = {known.identity: known.ranks for _, known in self._awaited() if known.ranks is not None}
        for rank in self._table.small_classes(rank for rank in self.followed if self.numbers[rank] in self.ranks):
            reader = self.ranks[self.numbers[rank]].reader
            positions = reader.positions()
            for known in reader.communicators.values():
                if known.world == self._world and known.ranks is not None and positions[known.identity]:
                    found[known.identity] = known.ranks
        return [found[identity] for identity in sorted(found)]

    def named_ranks(self) -> set[int]:
        """Return the ranks that followed ranks name, as roots and peers of the calls that they are in."""
        named = set()
        for call, known in self._awaited():
            members = range(known.size) if known.ranks is None else known.ranks
            named |= {members[one] for one in (call.root, *call.peers) if 0 <= one < len(members)}
        return {rank for rank in named if rank < self._table.world_size}

    def _awaited(self) -> list[tuple[Call, CommunicatorText]]:
        """Return the calls that followed ranks wait in, and their communicators."""
        found = []
        for rank in self.ranks.values():
            rank.reader.read_texts()
            known = {text.identity: text for text in rank.reader.communicators.values() if text.world == self._world}
            found += [
                (call, known[call.communicator])
                for waiting in rank.reader.threads()
                if waiting is not None
                for call in waiting.awaited
                if call.communicator in known
            ]
        return found

    def snapshot(self, *, history: int) -> Snapshot:
        """Return what is known now, with at most `history` past calls of each rank."""
        self.note_table()
        snapshot = super().snapshot(history=history)
        states = [None if state is None else with_member_numbers(state, self._renumber) for state in snapshot.ranks]
        states[-1] = RankState(
            rank=len(self.followed), communicators_known=False, messages_known=False, windows_known=False
        )
        return replace(snapshot, ranks=states if self._rest else states[:-1])

    def _communicators(self) -> dict[str, Membership]:
        communicators: dict[str, Membership] = {}
        for rank in self.ranks.values():
            for known in rank.reader.communicators.values():
                # one with two sides is left out: what happens on it is not judged
                if known.world == self._world and known.identity not in communicators and not is_inter(known.identity):
                    members = self._members.get(known.identity) or self._find_members(known)
                    communicators[known.identity] = Membership(name=known.name, ranks=members.numbers)
        return communicators

    def _find_members(self, known: CommunicatorText) -> MembersLeft:
        ranks: Sequence[int] = range(known.size) if known.ranks is None else known.ranks
        found = self._members[known.identity] = members_left(ranks, self.numbers, self._rest, len(self.followed))
        return found

    def _renumber(self, communicator: str, member: int) -> int:
        known = self._members.get(communicator)
        return member if known is None else known.renumber(member)
