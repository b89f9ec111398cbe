"""What a rule looks at: a snapshot of the job, and the user's source as far as it can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from paceline.guard.verdict.rank_names import name_ranks
from paceline.guard.verdict.snapshot import Call, EndKind, Membership, Position, RankState, Snapshot

Sources = Callable[[str], str | None]  # file -> its text, if it can be read


def no_sources(path: str) -> str | None:
    """Read no source at all."""
    return None


@dataclass(frozen=True, slots=True)
class Inspection:
    """A snapshot with the sources, and the questions that several rules ask of it."""

    snapshot: Snapshot
    sources: Sources = no_sources
    # what rules ask again for each of many ranks
    _members: dict[str, frozenset[int]] = field(init=False, default_factory=dict, repr=False, compare=False)
    _names: dict[str, str] = field(init=False, default_factory=dict, repr=False, compare=False)
    _missing: dict[Position, frozenset[int]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def state(self, rank: int) -> RankState | None:
        """Return what is known of a rank."""
        return self.snapshot.state(rank)

    def states(self) -> Iterator[RankState]:
        """Return the ranks that have been seen."""
        return (state for state in self.snapshot.ranks if state is not None)

    def out_of_sight(self) -> frozenset[int]:
        """Return the ranks of which nothing is known, not even that they start here: they may be anywhere."""
        unknown = (rank for rank, state in enumerate(self.snapshot.ranks) if state is None)
        return frozenset(unknown) - self.snapshot.starting

    def unseen_members(self, communicators: Iterable[str]) -> tuple[int, ...]:
        """Return the members of communicators that are out of sight: without them nobody can tell who is odd."""
        unseen = self.out_of_sight()
        return tuple(sorted(rank for rank in unseen if any(self.is_member(rank, name) for name in communicators)))

    def communicator(self, identity: str) -> Membership | None:
        """Return a communicator, if it is known."""
        return self.snapshot.communicators.get(identity)

    def name(self, identity: str) -> str:
        """Return the name of a communicator, with its members if another has the same name.

        Ranks number what they make each for itself: the Split of ranks 0-1 is not the Split of ranks 2-3.
        """
        known = self.snapshot.communicators.get(identity)
        if known is None:
            return "its communicator"
        if identity not in self._names:
            alike = [other for other in self.snapshot.communicators.values() if other.name == known.name]
            is_plain = len(alike) == 1 or {*known.ranks} == {*range(len(self.snapshot.ranks))}
            self._names[identity] = known.name if is_plain else f"{known.name} of {name_ranks(known.ranks)}"
        return self._names[identity]

    def text(self, position: Position) -> str:
        """Return a position as people read it: call 5 on WORLD."""
        return f"call {position.sequence} on {self.name(position.communicator)}"

    def has_ended(self, rank: int) -> bool:
        """Say whether a rank has ended."""
        state = self.state(rank)
        return state is not None and state.end is not None

    def ended(self) -> frozenset[int]:
        """Return the ranks that have ended."""
        return frozenset(state.rank for state in self.states() if state.end is not None)

    def was_aborted(self) -> bool:
        """Say whether the script itself has called Abort: then every rank knows, and the launcher ends the job."""
        return any(state.end is not None and state.end.kind is EndKind.ABORTED for state in self.states())

    def begun(self, rank: int, communicator: str) -> int:
        """Return how many collectives a rank has begun on a communicator; 0 if that is not known."""
        state = self.state(rank)
        return (state.begun(communicator) or 0) if state is not None else 0

    def lacks(self, rank: int, position: Position) -> bool:
        """Say whether a rank has not come to a position. Of one whose communicators are not all known: no."""
        state = self.state(rank)
        begun = state.begun(position.communicator) if state is not None else 0
        return begun is not None and begun < position.sequence

    def is_member(self, rank: int, communicator: str) -> bool:
        """Say whether a rank is a member of a communicator."""
        if communicator not in self._members:
            known = self.communicator(communicator)
            self._members[communicator] = frozenset(known.ranks if known is not None else ())
        return rank in self._members[communicator]

    def missing_at(self, position: Position) -> frozenset[int]:
        """Return the members that have not come to a position."""
        if position not in self._missing:
            known = self.communicator(position.communicator)
            members = known.ranks if known is not None else ()
            self._missing[position] = frozenset(rank for rank in members if self.lacks(rank, position))
        return self._missing[position]

    def collectives(self, rank: int, communicator: str) -> dict[int, Call]:
        """Return what is remembered of a rank's collectives on a communicator, by sequence."""
        state = self.state(rank)
        past = state.history if state is not None else ()
        return {call.sequence: call for call in past if call.communicator == communicator and call.is_collective}

    def call_at(self, rank: int, position: Position) -> Call | None:
        """Return a rank's call at a position, if it is remembered."""
        state = self.state(rank)
        for call in reversed(state.history if state is not None else ()):
            if call.is_collective and call.position == position:
                return call
        return None

    def calls_at(self, position: Position) -> dict[int, Call]:
        """Return the calls of all members at a position, as far as they are remembered."""
        calls: dict[int, Call] = {}
        known = self.communicator(position.communicator)
        for rank in known.ranks if known is not None else ():
            if self.begun(rank, position.communicator) >= position.sequence:
                call = self.call_at(rank, position)
                if call is not None:
                    calls[rank] = call
        return calls
