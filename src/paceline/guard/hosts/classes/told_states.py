"""What a watcher has told of ranks of a large job: their states as numbers, and by its ring whoever must be told so.

Most ranks of a large job do the same, so their rings would say the same. A rank is told of by its ring if the head asks
for it, if no number can tell its state, and if it has failed: of these only a few on each host, those that ended first.
"""

from __future__ import annotations

from collections.abc import Collection

from paceline.guard.hosts.classes.state_digest import MOVES, state_digest
from paceline.guard.hosts.host_messages import AlikeRanks, WorldReport
from paceline.guard.hosts.settling import ToldMarks
from paceline.guard.observe.local_rings import HeldRing, rank_of
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.number_ranges import to_ranges

LARGE = 256  # ranks; a job with more of them is told of by states
MOST_FAILED = 2  # ranks of one host that have failed, of which it is told how: launchers end all others

_Place = tuple[str, int, int]  # world, its size, and the rank there


class ToldStates:
    """The states of the ranks of one host."""

    def __init__(self) -> None:
        self._told: dict[int, tuple[_Place, int]] = {}  # process -> its place and its state
        self._new: dict[tuple[str, int], dict[int, list[int]]] = {}  # world and size -> state -> ranks
        self._followed: set[int] = set()
        self._asked: set[tuple[str, int]] = set()  # world and rank
        self._failed: dict[int, int] = {}  # process -> when it ended

    def forget(self) -> None:
        """The next report is whole; the head asks again for what it needs."""
        self._told.clear()
        self._new.clear()
        self._followed.clear()
        self._asked.clear()
        self._failed.clear()

    def follow(self, world: str, ranks: Collection[int]) -> None:
        """The head wants the rings of these ranks."""
        self._asked |= {(world, rank) for rank in ranks}

    def is_enough(self, held: HeldRing, mark: tuple[int, ...], marks: ToldMarks, *, is_still: bool) -> bool:
        """Note the state of a rank; say whether no more than that is told of it.

        Args:
            held: Its ring.
            mark: Its mark, read before.
            marks: What was told of all ranks; it is noted there whether this one is called still.
            is_still: Whether it has stood still for a while, or has ended.
        """
        place = _place_of(held)
        if place is None:
            return False
        rank = rank_of(held)
        pid = rank.process.pid
        self._followed |= {pid} if place[::2] in self._asked else set()
        if self._told.get(pid, (None, None))[0] == place and marks.has_told(pid, mark):
            return pid not in self._followed
        state = self._state_of(rank, mark) if is_still else MOVES
        self._tell(pid, place, state if state is not None else MOVES)
        if is_still and state is None:
            self._followed.add(pid)
        if pid in self._followed:
            return False
        if state == MOVES:
            marks.tell_moves(pid)
        else:
            marks.tell_still(pid, mark)
        return True

    def _state_of(self, rank: WatchedRank, mark: tuple[int, ...]) -> int | None:
        """Return the state of a rank that stands still; MOVES if it has moved after all, None if its ring must tell."""
        has_ended = rank.process.has_ended()
        if has_ended and rank.process.status != 0:
            ended_ns = rank.process.ended_ns
            if sum(other_ns < ended_ns for other_ns in self._failed.values()) >= MOST_FAILED:
                return MOVES
            self._failed[rank.process.pid] = ended_ns
            return None
        if not has_ended and mark[layout.ENDING] != layout.LIVES:
            return MOVES  # how it ends is told when it has
        state = state_digest(rank.reader, has_ended=has_ended)
        return state if (*rank.reader.mark(), has_ended) == mark else MOVES

    def _tell(self, pid: int, place: _Place, state: int) -> None:
        if self._told.get(pid) != (place, state):
            self._told[pid] = place, state
            world, size, rank = place
            states = self._new.setdefault((world, size), {})
            for ranks in states.values():
                if rank in ranks:
                    ranks.remove(rank)
            states.setdefault(state, []).append(rank)

    def changes(self) -> list[WorldReport]:
        """Return what has not been told yet, and take it to have been told."""
        new, self._new = self._new, {}
        return [
            WorldReport(
                world=world, size=size,
                alike=[AlikeRanks(state, to_ranges(sorted(ranks))) for state, ranks in states.items() if ranks],
            )
            for (world, size), states in new.items()
        ]  # fmt: skip


def is_large(held: HeldRing) -> bool:
    """Say whether a rank is of a large job."""
    return _place_of(held) is not None


def _place_of(held: HeldRing) -> _Place | None:
    """Return the place of a rank of a large job; None if the job is small, or the process is in several worlds."""
    if len(held.names) != 1:
        return None
    ((world, rank),) = held.names.items()
    size = held.reader.worlds[world].size
    return (world, size, rank) if size > LARGE else None
