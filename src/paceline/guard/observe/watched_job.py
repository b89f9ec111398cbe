"""The ranks of one job as the judge sees them: rings and processes put together into snapshots.

A rank may be in other worlds than those of the job only while it joins one: its calls there are left out until the next
look, which finds it in the job that it is then in. See job_worlds.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paceline.guard.observe.job_worlds import JobMembers
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.rank_ends import rank_end
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.snapshot import End, Membership, RankState, Snapshot, Stop

_LOST_MESSAGES = layout.LOST_CHANNELS | layout.LOST_MESSAGES | layout.LOST_REQUESTS | layout.LOST_COMMUNICATORS


class WatchedJob:
    """The ranks of one job."""

    def __init__(self, members: JobMembers, ranks: Mapping[int, WatchedRank]) -> None:
        self.name, self.world_size, self.worlds = members.name, members.world_size, members.worlds
        self.ranks = ranks
        self._num_numbers = members.num_numbers

    def let_go_on(self, rank: int) -> None:
        """Tell a rank that stopped before a call to make it."""
        self.ranks[rank].reader.let_go_on()

    def marks(self) -> dict[int, tuple[int, ...]]:
        """Return what changes whenever a rank does anything."""
        return {number: (*rank.reader.mark(), rank.process.has_ended()) for number, rank in self.ranks.items()}

    def processes(self) -> list[ProcessHandle]:
        """Return the ranks' processes."""
        return [rank.process for rank in self.ranks.values()]

    def lost_ranks(self) -> list[int]:
        """Return the ranks of which not everything could be recorded."""
        return sorted(number for number, rank in self.ranks.items() if rank.reader.word(layout.LOST))

    def any_is_ending(self) -> bool:
        """Say whether some rank has ended or is about to."""
        return any(
            rank.process.has_ended() or rank.reader.word(layout.ENDING) != layout.LIVES for rank in self.ranks.values()
        )

    def has_ended(self) -> bool:
        """Say whether every rank that was seen has exited."""
        return all(rank.process.has_ended() for rank in self.ranks.values())

    def note_memory(self) -> None:
        """Remember how much memory each rank holds, in case one is killed."""
        for rank in self.ranks.values():
            rank.note_memory()

    def end(self, rank: int) -> End | None:
        """Return how a rank has ended or is ending; None while it lives."""
        return rank_end(self.ranks[rank])

    def ends(self) -> dict[int, End]:
        """Return how ranks have ended."""
        ends = {}
        for number, rank in self.ranks.items():
            rank.reader.read_texts()
            end = rank_end(rank)
            if end is not None:
                ends[number] = end
        return ends

    def snapshot(self, *, history: int) -> Snapshot:
        """Return what is known now, with at most `history` past calls of each rank."""
        for rank in self.ranks.values():
            rank.reader.read_texts()
        # communicators first: a call that a rank makes meanwhile may name one that is not among them, and is then
        # left out of the judgement until the next look
        communicators = self._communicators()
        states: list[RankState | None] = [None] * self._num_numbers
        for number, rank in self.ranks.items():
            states[number] = self._rank_state(number, rank, history)
        new_groups = {
            int(text["group"]): tuple(text["ranks"])
            for rank in self.ranks.values()
            for text in rank.reader.texts
            if "group" in text
        }
        return Snapshot(ranks=states, communicators=communicators, new_groups=new_groups)

    def _communicators(self) -> dict[str, Membership]:
        """Return the communicators that ranks have told of, by identity."""
        communicators: dict[str, Membership] = {}
        for rank in self.ranks.values():
            for known in rank.reader.communicators.values():
                if known.identity not in communicators and known.world in self.worlds:
                    communicators[known.identity] = Membership(name=known.name, ranks=known.members(self.worlds))
        return communicators

    def _rank_state(self, number: int, rank: WatchedRank, history: int) -> RankState:
        reader = rank.reader
        reader.read_texts()
        threads = reader.threads()  # before the messages: one that is sent now must not be missed by one who waits now
        sent, received = reader.channels()
        lost = reader.word(layout.LOST)
        return RankState(
            rank=number,
            end=rank_end(rank),
            threads=threads,
            positions=reader.positions(),
            freed=reader.freed(),
            forgotten=reader.forgotten(),
            sent=sent,
            received=received,
            posted=reader.posted() if sent or received or threads else (),
            communicators_known=not lost & layout.LOST_COMMUNICATORS,
            messages_known=not lost & _LOST_MESSAGES,
            threads_known=not lost & layout.LOST_THREADS,
            stop=self._stop(reader.stop()),
            history=reader.history(history) if history else (),
        )

    def _stop(self, stop: Stop | None) -> Stop | None:
        """Return a stop with the rank of the job that the call does not fit, instead of its rank in its world."""
        if stop is None:
            return None
        numbers = self.worlds.get(stop.call.communicator.rpartition(".")[0], {})
        return replace(stop, peer=numbers.get(stop.peer, stop.peer))
