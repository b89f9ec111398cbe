"""The ranks of one job as the judge sees them: rings and processes put together into snapshots.

A rank may be in other worlds than those of the job only while it joins one: its calls there are left out until the next
look, which finds it in the job that it is then in. See job_worlds.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from paceline.guard.observe.glances import Glance, glance_at
from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.rank_ends import RankTexts, end_by_exception, is_leaving, rank_end
from paceline.guard.observe.rank_starts import StartedRank, early_state
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.observe.worlds.job_worlds import JobMembers, OutOfSight
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.ring_texts import UNKNOWN_SITE
from paceline.guard.verdict.rank_facts.edges import Edges
from paceline.guard.verdict.snapshot import (
    End,
    Membership,
    RankState,
    Remark,
    Snapshot,
    Stop,
    num_in_first_side,
)
from paceline.guard.verdict.waits.waited_for import ranks_waited_for

_LAST_CALLS = 16
_LOST_EPOCHS = layout.LOST_WINDOWS | layout.LOST_CHANNELS
_LOST_MESSAGES = layout.LOST_CHANNELS | layout.LOST_MESSAGES | layout.LOST_REQUESTS | layout.LOST_COMMUNICATORS


def _fill_in(ranks: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    """Return the members of a communicator that two jobs share, of which each tells its own."""
    return tuple(max(pair) for pair in zip(ranks, others, strict=False))


class WatchedJob:
    """The ranks of one job.

    Attributes:
        stands_for_others: Whether its ranks stand for others that are now in the same state.
    """

    stands_for_others = False

    def __init__(
        self,
        members: JobMembers,
        ranks: Mapping[int, WatchedRank],
        early: Mapping[int, StartedRank] | None = None,
        rename: Callable[[str], str] = str,
        starting: frozenset[int] = frozenset(),
        num_local: int | None = None,
    ) -> None:
        self.name, self.world_size, self.worlds = members.name, members.world_size, members.worlds
        self.ranks, self.world_ranks = ranks, members.world_ranks
        self.rename = rename  # gives a communicator that two jobs share one name for both
        self._early = early or {}  # ranks that have ended before they joined
        self._starting = starting  # ranks that were started here and have not joined
        self._num_local = num_local  # how many of the ranks are on this machine, if the launcher says so
        self._num_numbers = members.num_numbers

    def out_of_sight(self) -> OutOfSight | None:
        """Return the ranks of which nothing has been seen on this machine; None if there are none."""
        seen = self.ranks.keys() | self._early.keys() | self._starting
        ranks = tuple(rank for rank in range(self.world_size) if rank not in seen)
        return OutOfSight(ranks=ranks, world_size=self.world_size, num_local=self._num_local) if ranks else None

    def let_go_on(self, rank: int) -> None:
        """Tell a rank that stopped before a call to make it."""
        self.ranks[rank].reader.let_go_on()

    def oldest_call(self, rank: int) -> int:
        """Return the number of the oldest call of a rank that no later one has begun to replace."""
        return self.ranks[rank].reader.word(layout.NUM_RECORDS) - layout.NUM_SLOTS + layout.MAX_THREADS

    def marks(self) -> dict[int, tuple[int, ...]]:
        """Return what changes whenever a rank does anything."""
        marks = {number: (*rank.reader.mark(), rank.process.has_ended()) for number, rank in self.ranks.items()}
        if self._early and marks:
            nothing = (0,) * (len(next(iter(marks.values()))) - 1)
            marks |= dict.fromkeys(self._early, (*nothing, True))
        return marks

    def processes(self) -> list[ProcessHandle]:
        """Return the ranks' processes."""
        return [rank.process for rank in self.ranks.values()]

    @property
    def is_spread(self) -> bool:
        """Whether ranks of it run on other hosts."""
        return any(rank.process.host for rank in self.ranks.values())

    def shown_ranks(self) -> Sequence[int]:
        """Return the ranks that a view shows."""
        return range(self.world_size)

    def glances(self, num_calls: int) -> dict[int, Glance]:
        """Return what ranks do now, with so many of their last calls, for a view.

        Of ranks elsewhere it is what their hosts have told, as long as they are asked. Then arrivals of ranks here are
        those of the moment of the question, too: later calls are not known of all.
        """
        found = {}
        for number, rank in self.ranks.items():
            told = rank.glance
            if told is not None and rank.process.host:
                rank.reader.read_texts()  # how it ends is told there
                found[number] = told
                continue
            glance = glance_at(rank.reader, num_calls=num_calls)
            if rank.process.host:
                glance = replace(glance, counts=None, arrivals=())
            found[number] = glance if told is None else replace(glance, arrivals=told.arrivals)
        return found

    def host_of(self, number: int) -> str:
        """Return the name of the host of a rank; empty if it is this one."""
        return self.ranks[number].process.host

    def waited_for(self) -> set[int]:
        """Return the ranks that others wait for."""
        return set(ranks_waited_for(self.snapshot(history=0)))

    def rank_in_world(self, number: int) -> int:
        """Return the rank that a number of a large job stands for; ranks of other worlds keep their numbers."""
        known = self.world_ranks.get(number)
        return known.rank if known is not None and not known.world else number

    def lost_ranks(self) -> list[int]:
        """Return the ranks of which not everything could be recorded."""
        return sorted(
            self.rank_in_world(number) for number, rank in self.ranks.items() if rank.reader.word(layout.LOST)
        )

    def any_is_ending(self) -> bool:
        """Say whether some rank has ended or is about to."""
        return any(
            rank.process.has_ended() or rank.reader.word(layout.ENDING) != layout.LIVES for rank in self.ranks.values()
        ) or bool(self._early)

    def has_ended(self) -> bool:
        """Say whether every rank that was seen has exited."""
        return all(rank.process.has_ended() for rank in self.ranks.values())

    def lingering(self) -> dict[int, int]:
        """Return the ranks whose script has ended while their process lives, and since when; nobody before all have."""
        if len(self.ranks) < self.world_size:
            return {}
        living = {number: rank for number, rank in self.ranks.items() if not rank.process.has_ended()}
        since = {number: rank.reader.word(layout.ENDED_AT) for number, rank in living.items()}
        if not all(since.values()) or any(rank.process.is_lost for rank in living.values()):
            return {}
        # others keep the process: Ray, and programs that embed Python
        return since if all(map(is_leaving, living.values())) else {}

    def note_memory(self) -> None:
        """Remember how much memory each rank holds, in case one is killed."""
        for rank in self.ranks.values():
            rank.note_memory()

    def end(self, rank: int) -> End | None:
        """Return how a rank has ended or is ending; None while it lives."""
        return rank_end(self.ranks[rank] if rank in self.ranks else self._early[rank])

    def ends(self) -> dict[int, End]:
        """Return how ranks have ended."""
        ends = {}
        for number, rank in self.ranks.items():
            rank.reader.read_texts()
            end = rank_end(rank)
            if end is not None:
                ends[number] = end
        return ends | {number: end for number, rank in self._early.items() if (end := rank_end(rank)) is not None}

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
        for number, started in self._early.items():
            states[number] = early_state(number, rank_end(started))
        new_groups = {number: ranks for rank in self.ranks.values() for number, ranks in rank.reader.groups.items()}
        return Snapshot(
            ranks=states, communicators=communicators, new_groups=new_groups, world_ranks=self.world_ranks,
            starting=self._starting,
        )  # fmt: skip

    def _communicators(self) -> dict[str, Membership]:
        """Return the communicators that ranks have told of, by identity."""
        communicators: dict[str, Membership] = {}
        for rank in self.ranks.values():
            for known in rank.reader.communicators.values():
                before = communicators.get(known.identity)
                if known.world in self.worlds and (before is None or layout.OF_OTHER_JOB in before.ranks):
                    ranks = known.members(self.worlds)
                    communicators[known.identity] = Membership(
                        name=known.name if before is None else before.name,
                        ranks=ranks if before is None else _fill_in(before.ranks, ranks),
                        num_first=num_in_first_side(known.identity),
                    )
        # one that joins this job and another of which nothing is known is left out
        return {name: known for name, known in communicators.items() if layout.OF_OTHER_JOB not in known.ranks}

    def _rank_state(self, number: int, rank: WatchedRank, history: int) -> RankState:
        reader = rank.reader
        reader.read_texts()
        threads = reader.threads()  # before the messages: one that is sent now must not be missed by one who waits now
        freed = reader.freed()  # before the messages: one that is freed is not received from any more
        counts = reader.channels()
        sent, received = counts[layout.SENT], counts[layout.RECEIVED]
        lost = reader.word(layout.LOST)
        end = rank_end(rank)
        if end is not None and end.failed_call is not None:
            history = max(history, _LAST_CALLS)  # what it died of says whether it has sent a message
        return RankState(
            rank=number,
            end=end,
            threads=threads,
            positions=reader.positions(),
            freed=freed,
            finalized_at=_finalized_at(reader),
            thread_error=_thread_error(reader),
            forgotten=reader.forgotten(),
            sent=sent,
            received=received,
            given=counts[layout.GIVEN],
            taken=counts[layout.TAKEN],
            held=counts[layout.HELD],
            made_by=reader.made_by() if history else {},
            neighbours={text["of"]: tuple(text["neighbours"]) for text in reader.texts if "neighbours" in text},
            edges={text["of"]: _edges(text) for text in reader.texts if "neighbours" in text},
            posted=reader.posted() if sent or received or threads else (),
            communicators_known=not lost & layout.LOST_COMMUNICATORS,
            messages_known=not lost & _LOST_MESSAGES,
            windows_known=not lost & _LOST_EPOCHS,
            threads_known=not lost & layout.LOST_THREADS,
            num_uncertain=reader.word(layout.NUM_UNCERTAIN),
            remarks=self._remarks(reader),
            stop=self._stop(reader),
            history=reader.history(history) if history else (),
        )

    def _remarks(self, reader: RingReader) -> tuple[Remark, ...]:
        """Return the remarks of a rank. What it says of calls of other ranks gets their numbers and their lines."""
        return tuple(
            replace(remark, facts={**remark.facts, **self._sides(reader, remark)}) if "pair" in remark.facts else remark
            for remark in reader.remarks()
        )

    def _sides(self, reader: RingReader, remark: Remark) -> dict[str, Any]:
        known = next((one for one in reader.communicators.values() if one.identity == remark.facts["on"]), None)
        members = known.members(self.worlds) if known is not None else ()
        sides = []
        for member, site, name in remark.facts["pair"]:
            rank = members[member] if member < len(members) else -1
            line = self.ranks[rank].reader.site(site) if rank in self.ranks else UNKNOWN_SITE
            sides.append((rank, line, name))
        target = int(remark.facts["target"])
        return {"pair": sides, "target": members[target] if target < len(members) else -1}

    def _stop(self, reader: RingReader) -> Stop | None:
        """Return a stop with the rank of the job that the call does not fit, instead of its rank in its world."""
        stop = reader.stop()
        if stop is None:
            return None
        worlds = {known.identity: known.world for known in reader.communicators.values()}
        numbers = self.worlds.get(worlds.get(stop.call.communicator, ""), {})
        return replace(stop, peer=numbers.get(stop.peer, stop.peer))


def _edges(text: Mapping[str, Any]) -> Edges:
    """Return the edges of a topology; where a rank names one list, it receives from all its neighbours, or sends to."""
    members = text["neighbours"]
    return Edges(tuple(text.get("sources", members)), tuple(text.get("destinations", members)))


def _finalized_at(reader: RankTexts) -> str:
    """Return the line at which the script has called MPI.Finalize; nothing if it has not."""
    frames = next((text["frames"] for text in reader.texts if "finalized" in text), None)
    return reader.frames_text(frames[:1])[0] if frames else ""


def _thread_error(reader: RankTexts) -> str:
    """Return the first exception that a thread has raised and nobody caught, and the line at which it did."""
    raised = next((text["thread raised"] for text in reader.texts if "thread raised" in text), None)
    if raised is None:
        return ""
    error = end_by_exception(reader, raised, 0)
    return f"{error.detail} at {error.site}" if error.site else error.detail
