"""Uneven steps: some ranks have left a loop that others are still in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.guard.verdict.causes.explanation import Explanation
from paceline.guard.verdict.causes.related_lines import relate_calls
from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.first_difference import DifferingCalls, Line, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.wording import name_ranks, verb

EVEN_STEPS = (
    "give every rank the same number of steps: paceline.PlanSampler does, or stop all ranks at the smallest count "
    "(all_reduce with MIN before the loop)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenLoop:
    """Some ranks have left a loop that others are still in."""

    left: tuple[int, ...]
    stayed: tuple[int, ...]
    rounds_of_left: int
    rounds_of_stayed: int
    still_in: bool
    site: str


def find_uneven_loop(inspection: Inspection, differing: DifferingCalls | None) -> UnevenLoop | None:
    """Find out whether ranks differ because some left a loop earlier than others."""
    lines = differing.by_line() if differing is not None else []
    if differing is None or len(lines) < 2:
        return None
    communicator, sequence = differing.position
    for stayed, left in ((lines[0], lines[1]), (lines[1], lines[0])):
        in_loop, after = differing.calls[stayed[0]], differing.calls[left[0]]
        past = inspection.collectives(left[0], communicator)
        longest = inspection.collectives(stayed[0], communicator)
        rounds = _rounds(past, sequence, line_of(in_loop), line_of(after))
        if rounds == 0 or not _has_left_loop(inspection, sequence, in_loop, after, past, longest):
            continue
        ends = [at for at, call in longest.items() if at > sequence and line_of(call) == line_of(after)]
        until = min(ends, default=max(longest) + 1)
        more = _rounds(longest, until, line_of(in_loop), line_of(after), before=sequence)
        return UnevenLoop(
            left=left, stayed=stayed, rounds_of_left=rounds, rounds_of_stayed=more, still_in=not ends, site=in_loop.site
        )
    return None


def _rounds(past: Mapping[int, Call], until: int, loop: Line, after: Line, before: int | None = None) -> int:
    """Count the calls from the loop's line since the last call from the line after it, if there was one."""
    limit = until if before is None else before
    previous = max((at for at, call in past.items() if at < limit and line_of(call) == after), default=0)
    return sum(1 for at, call in past.items() if previous < at < until and line_of(call) == loop)


def _has_left_loop(
    inspection: Inspection, sequence: int, in_loop: Call, after: Call, past: Mapping[int, Call],
    others: Mapping[int, Call],
) -> bool:  # fmt: skip
    """Say whether the second call comes after the loop that the first is in, and not from an `if` within it."""
    back = any(at > sequence and line_of(call) == line_of(in_loop) for at, call in past.items())
    met = any(at > sequence and line_of(call) == line_of(after) for at, call in others.items())
    if back and not met:
        return False  # it is in the loop again, and the others never make that call
    relation = relate_calls(inspection, in_loop, after)
    if relation is None or relation.loop_line is None:
        return True  # the loop is further out, or there is no source: what the calls say must do
    return not relation.second_in_loop


def explain_uneven_loop(loop: UnevenLoop) -> Explanation:
    """Explain ranks that make different numbers of steps."""
    left, stayed = loop.left, loop.stayed
    odd = left if len(left) <= len(stayed) else stayed
    rounds = "1 step" if loop.rounds_of_left == 1 else f"{loop.rounds_of_left} steps"
    theirs = f"{verb(stayed, 'is', 'are')} in step" if loop.still_in else f"{verb(stayed, 'makes', 'make')}"
    summary = (
        f"{verb(left, 'it', 'they') if odd == left else name_ranks(left)} left the loop at {loop.site} after "
        f"{rounds}; {name_ranks(stayed)} {theirs} {loop.rounds_of_stayed}"
    )
    return Explanation(
        ranks=odd, summary=f"{name_ranks(odd)} fell out of line: {summary}", cause=Cause.UNEVEN_STEPS, advice=EVEN_STEPS
    )
