"""Uneven steps: some ranks have left a loop that others are still in."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import Line, line_of
from paceline.guard.verdict.user_source import SourceBlock
from paceline.guard.verdict.wording import name_ranks, verb

EVEN_STEPS = (
    "give every rank the same number of steps: paceline.PlanSampler does, or stop all ranks at the smallest count "
    "(all_reduce with MIN before the loop)"
)


def explain_left_early(deviation: Deviation, loop: SourceBlock, file: str) -> Explanation | None:
    """Explain odd ranks that have left a loop in which the others still are; None if they never made its call."""
    rounds = _rounds(deviation.past, line_of(deviation.usual_call), line_of(deviation.odd_call))
    if rounds == 0:
        return None
    left, stayed = name_ranks(deviation.odd), deviation.usual
    theirs = _progress(stayed, rounds, deviation.usual_rest, line_of(deviation.odd_call))
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{left} fell out of line: {verb(deviation.odd, 'it', 'they')} left the loop `{loop.head}` at "
        f"{file}:{loop.line} after {_steps(rounds)}; {name_ranks(stayed)} {theirs}, at {deviation.usual_call.site}",
        cause=Cause.UNEVEN_STEPS,
        advice=EVEN_STEPS,
    )


def explain_stayed_longer(deviation: Deviation, loop: SourceBlock, file: str) -> Explanation | None:
    """Explain odd ranks that are still in a loop that the others have left; None if the others never made its call."""
    rounds = _rounds(deviation.past, line_of(deviation.odd_call), line_of(deviation.usual_call))
    if rounds == 0:
        return None
    odd = deviation.odd
    theirs = _progress(odd, rounds, deviation.odd_rest, line_of(deviation.usual_call))
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} fell out of line: {name_ranks(deviation.usual)} left the loop `{loop.head}` at "
        f"{file}:{loop.line} after {_steps(rounds)}; {name_ranks(odd)} {theirs}, at {deviation.odd_call.site}",
        cause=Cause.UNEVEN_STEPS,
        advice=EVEN_STEPS,
    )


def _progress(ranks: Sequence[int], rounds: int, rest: Sequence[Line], after: Line) -> str:
    """Say in which step ranks are that stayed in the loop, or how many they made in all."""
    in_loop = rest[0]
    until = rest.index(after) if after in rest else len(rest)
    steps = rounds + sum(1 for line in rest[:until] if line == in_loop)
    return f"{verb(ranks, 'makes', 'make')} {steps}" if after in rest else f"{verb(ranks, 'is', 'are')} in step {steps}"


def _steps(rounds: int) -> str:
    return "1 step" if rounds == 1 else f"{rounds} steps"


def _rounds(past: tuple[Line, ...], in_loop: Line, after: Line) -> int:
    """Count the calls from the loop's line since the last call from the line after it, if there was one."""
    rounds = 0
    for line in reversed(past):
        if line == after:
            break
        rounds += line == in_loop
    return rounds
