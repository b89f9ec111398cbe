"""Where the members of a communicator went different ways, as two sides: what is usual, and what the odd ranks do.

The majority is usual. Between sides of equal size the past decides: who does what all have done in earlier rounds is
usual. If that does not tell either, nobody is called the odd one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.guard.verdict.causes.habit import usual_continuation
from paceline.guard.verdict.first_difference import DifferingCalls, Line, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviation:
    """Two sides at one position.

    Attributes:
        usual: The ranks at the usual line.
        odd: The others.
        usual_call: A call of theirs there.
        odd_call: A call of the others there.
        past: The lines of all calls before it that every rank remembers.
        last_call: The last of these calls.
        usual_rest: The lines of the usual side from there on.
        odd_rest: The lines of the odd side from there on.
        is_tie: Whether nothing tells which side is usual.
    """

    usual: tuple[int, ...]
    odd: tuple[int, ...]
    usual_call: Call
    odd_call: Call
    past: tuple[Line, ...]
    last_call: Call | None
    usual_rest: tuple[Line, ...]
    odd_rest: tuple[Line, ...]
    is_tie: bool = False

    @property
    def out_of_line(self) -> tuple[int, ...]:
        """The ranks that a finding names."""
        return tuple(sorted({*self.usual, *self.odd})) if self.is_tie else self.odd


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
    usual, is_tie = _usual_side(differing, sides, past)
    odd_ranks = tuple(sorted(rank for side in sides if side is not usual for rank in side))
    odd = next(side for side in sides if side is not usual)  # the largest of them: its call is the one that is shown
    return Deviation(
        usual=usual, odd=odd_ranks, usual_call=differing.calls[usual[0]], odd_call=differing.calls[odd[0]], past=past,
        last_call=pasts[odd[0]].get(sequence - 1),
        usual_rest=_longest(lines, usual, len(past)), odd_rest=_longest(lines, odd, len(past)), is_tie=is_tie,
    )  # fmt: skip


def _usual_side(
    differing: DifferingCalls, sides: Sequence[tuple[int, ...]], past: Sequence[Line]
) -> tuple[tuple[int, ...], bool]:
    """Return the side that does what is usual, and whether that is only a guess."""
    largest = [side for side in sides if len(side) == len(sides[0])]
    if len(largest) == 1:
        return largest[0], False
    expected = usual_continuation(past)[:1]
    as_expected = [side for side in largest if [line_of(differing.calls[side[0]])] == expected]
    return (as_expected[0], False) if len(as_expected) == 1 else (largest[0], True)


def _longest(lines: dict[int, list[Line]], ranks: Sequence[int], begin: int) -> tuple[Line, ...]:
    """Return the longest continuation that a side is known to have made."""
    longest = max(ranks, key=lambda rank: len(lines[rank]))
    return tuple(lines[longest][begin:])
