"""The ranks of one job as the judge sees them: rings and processes put together into snapshots."""

from __future__ import annotations

from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.rank_ends import rank_end
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.snapshot import End, Membership, RankState, Snapshot
from paceline.process.procfs import out_of_memory_kills

_LOST_MESSAGES = layout.LOST_CHANNELS | layout.LOST_MESSAGES | layout.LOST_REQUESTS | layout.LOST_COMMUNICATORS


class WatchedJob:
    """The ranks of one job."""

    def __init__(self, name: str, world_size: int) -> None:
        self.name, self.world_size = name, world_size
        self.ranks: dict[int, WatchedRank] = {}
        self._kills_before = out_of_memory_kills()

    def add(self, rank: int, reader: RingReader) -> None:
        """Add a rank that has been seen."""
        process = ProcessHandle(reader.word(layout.PID), reader.word(layout.START_TIME))
        self.ranks[rank] = WatchedRank(reader, process, self._kills_before)

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
        states: list[RankState | None] = [None] * self.world_size
        for number, rank in self.ranks.items():
            states[number] = _rank_state(number, rank, history)
        new_groups = {
            int(text["group"]): tuple(text["ranks"])
            for rank in self.ranks.values()
            for text in rank.reader.texts
            if "group" in text
        }
        return Snapshot(ranks=states, communicators=communicators, new_groups=new_groups)

    def _communicators(self) -> dict[str, Membership]:
        """Return the communicators that ranks have told of, by identity."""
        # number of a rank in its carrier -> its number in the job; they differ if the script uses both carriers
        job_ranks: dict[str, dict[int, int]] = {"mpi": {}, "torch": {}}
        for number, rank in self.ranks.items():
            for carrier, word in (("mpi", layout.MPI_RANK), ("torch", layout.TORCH_RANK)):
                if rank.reader.word(word):
                    job_ranks[carrier][rank.reader.word(word) - 1] = number
        communicators: dict[str, Membership] = {}
        for rank in self.ranks.values():
            for known in rank.reader.communicators.values():
                if known.identity not in communicators:
                    communicators[known.identity] = Membership(name=known.name, ranks=known.members(job_ranks))
        return communicators


def _rank_state(number: int, rank: WatchedRank, history: int) -> RankState:
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
        stop=reader.stop(),
        history=reader.history(history) if history else (),
    )
