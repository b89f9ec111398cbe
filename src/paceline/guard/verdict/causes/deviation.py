"""Where the members of a communicator went different ways, as two sides: what is usual, and what the odd ranks do.

The majority is usual. Between sides of equal size the past decides: who does what all have done in earlier rounds is
usual. If that does not tell either, nobody is called the odd one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from paceline.guard.verdict.causes.habit import knows_how_often, usual_continuation
from paceline.guard.verdict.first_difference import DifferingCalls, Line, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.wording import call_place


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Two sides at one position.

    Attributes:
        usual: The ranks at the usual line.
        odd: The others, as far as they are all at one other line; otherwise the largest group of them.
        also_odd: The ranks that are at a third line.
        usual_call: A call of theirs there.
        odd_call: A call of the others there.
        calls: The call of every rank there.
        past: The lines of all calls before it that every rank remembers.
        last_call: The last of these calls.
        usual_rest: The lines of the usual side from there on.
        odd_rest: The lines of the odd side from there on.
        is_tie: Whether nothing tells which side is usual.
        is_across: Whether the two calls are on different communicators, so that they cannot pair up.
    """

    usual: tuple[int, ...]
    odd: tuple[int, ...]
    usual_call: Call
    odd_call: Call
    past: tuple[Line, ...]
    last_call: Call | None
    usual_rest: tuple[Line, ...]
    odd_rest: tuple[Line, ...]
    calls: Mapping[int, Call]
    also_odd: tuple[int, ...] = ()
    is_tie: bool = False
    is_across: bool = False

    @property
    def out_of_line(self) -> tuple[int, ...]:
        """The ranks that a finding names."""
        odd = {*self.odd, *self.also_odd}
        return tuple(sorted({*self.usual, *odd} if self.is_tie else odd))

    def mirrored(self) -> Deviation:
        """Return the same two sides the other way round."""
        return replace(
            self, usual=self.odd, odd=self.usual, usual_call=self.odd_call, odd_call=self.usual_call,
            usual_rest=self.odd_rest, odd_rest=self.usual_rest,
        )  # fmt: skip

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of all calls that are laid side by side."""
        return (*self.past, *self.usual_rest, *self.odd_rest)

    def place(self, call: Call) -> str:
        """Name the line of one of the two calls, with what called it if that line has made other calls too."""
        other = self.odd_call if call is self.usual_call else self.usual_call
        place = call_place(call, other)
        if place != f"at {call.site}":
            return place
        for line in self.lines:
            if line[:2] == (call.operation, call.site) and line != line_of(call):
                caller = next((one for one, two in zip(call.callers, line[2:], strict=False) if one != two), None)
                return place if caller is None else f"{place} (called from {caller})"
        return place


def find_deviation(inspection: Inspection, differing: DifferingCalls | None) -> Deviation | None:
    """Return the two sides of a first difference."""
    sides = differing.by_line() if differing is not None else []
    if differing is None or len(sides) < 2:
        return None
    communicator, sequence = differing.position
    pasts = {rank: inspection.collectives(rank, communicator) for rank in differing.calls}
    begin = max(min(past) for past in pasts.values())
    lines = {
        rank: [line_of(past[at]) for at in sorted(past) if at >= begin] for rank, past in pasts.items()
    }  # every member's own, from the first that all remember; they are the same up to the difference
    past = tuple(lines[sides[0][0]][: sequence - begin])
    usual, is_tie = usual_side(differing.calls, sides, past)
    odd = next(side for side in sides if side is not usual)  # the largest of them: its call is the one that is shown
    alike = max(usual, key=lambda rank: _num_alike(pasts[rank], pasts[odd[0]], sequence))
    return Deviation(
        usual=usual, odd=odd, also_odd=tuple(sorted(set(differing.calls) - {*usual, *odd})),
        usual_call=differing.calls[alike], odd_call=differing.calls[odd[0]], calls=differing.calls, past=past,
        last_call=pasts[odd[0]].get(sequence - 1),
        usual_rest=longest_rest(lines, usual, len(past)), odd_rest=longest_rest(lines, odd, len(past)), is_tie=is_tie,
    )  # fmt: skip


def _num_alike(one: Mapping[int, Call], other: Mapping[int, Call], end: int) -> int:
    """Count what two ranks have called from the same lines before a position: the more, the more alike their roles."""
    return sum(call.site == other[at].site for at, call in one.items() if at < end and at in other)


def usual_side(
    calls: Mapping[int, Call], sides: Sequence[tuple[int, ...]], past: Sequence[Line]
) -> tuple[tuple[int, ...], bool]:
    """Return the side that does what is usual, and whether that is only a guess."""
    largest = [side for side in sides if len(side) == len(sides[0])]
    if len(largest) == 1:
        return largest[0], False
    expected = usual_continuation(past)[:1]
    as_expected = [side for side in largest if [line_of(calls[side[0]])] == expected]
    if len(as_expected) != 1:
        return largest[0], True
    # a loop goes on, or ends: nothing tells which of both is right
    return as_expected[0], expected == list(past[-1:]) and not knows_how_often(past)


def longest_rest(lines: dict[int, list[Line]], ranks: Sequence[int], begin: int) -> tuple[Line, ...]:
    """Return the longest continuation that a side is known to have made."""
    longest = max(ranks, key=lambda rank: len(lines[rank]))
    return tuple(lines[longest][begin:])
