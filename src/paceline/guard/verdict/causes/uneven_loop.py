"""Uneven steps: some ranks have left a loop that others are still in."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import Line, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.control_flow import goes_a_fixed_number_of_times
from paceline.guard.verdict.source.passed_over import can_be_left_by_exception, ends_by_condition
from paceline.guard.verdict.source.user_source import SourceBlock
from paceline.guard.verdict.wording import call_name, name_ranks, nth, verb

EVEN_STEPS = (
    "give every rank the same number of steps: paceline.PlanSampler does, or stop all ranks at the smallest count "
    "(all_reduce with MIN before the loop)"
)

SAME_END = (
    "let all ranks leave the loop in the same step: decide it together, by an all_reduce of the flag or of the value "
    "that ends it"
)

AFTER_EXCEPTION = (
    "find out which exception was caught around the loop: let it end the job, or tell the other ranks of it (an "
    "all_reduce of a flag in every step), so that all leave the loop together"
)


def advise_on_loop(inspection: Inspection, call: Call, loop: SourceBlock, file: str) -> str:
    """Say what to change so that all ranks leave a loop together, by what may end it."""
    is_caught = can_be_left_by_exception(inspection, call, loop, file)
    if is_caught and goes_a_fixed_number_of_times(loop):
        return AFTER_EXCEPTION
    if ends_by_condition(inspection, call, loop, file):
        return SAME_END
    return (
        f"{EVEN_STEPS}; if an exception was caught around the loop, let it end all ranks" if is_caught else EVEN_STEPS
    )


def explain_left_early(
    deviation: Deviation, loop: SourceBlock, file: str, *, in_steps: bool = True, advice: str = EVEN_STEPS
) -> Explanation | None:
    """Explain odd ranks that have left a loop in which the others still are; None if they never made its call.

    Only if every step makes the call (`in_steps`), its number is the number of steps.
    """
    return _explain(deviation, loop, file, in_steps=in_steps, advice=advice, odd_left=True)


def explain_stayed_longer(
    deviation: Deviation, loop: SourceBlock, file: str, *, in_steps: bool = True, advice: str = EVEN_STEPS
) -> Explanation | None:
    """Explain odd ranks that are still in a loop that the others have left; None if the others never made its call."""
    return _explain(deviation, loop, file, in_steps=in_steps, advice=advice, odd_left=False)


def _explain(
    deviation: Deviation, loop: SourceBlock, file: str, *, in_steps: bool, advice: str, odd_left: bool
) -> Explanation | None:
    left, stayed = (deviation.odd, deviation.usual) if odd_left else (deviation.usual, deviation.odd)
    inside, after, rest = deviation.usual_call, deviation.odd_call, deviation.usual_rest
    if not odd_left:
        inside, after, rest = after, inside, deviation.odd_rest
    rounds = _rounds(deviation.past, line_of(inside), line_of(after))
    if rounds == 0:
        return None
    unit = _steps(rounds) if in_steps else f"{rounds} {'call' if rounds == 1 else 'calls'} of {call_name(inside)}"
    who = verb(deviation.odd, "it", "they") if odd_left and not deviation.is_tie else name_ranks(left)
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{opening(deviation)}: {who} left the loop `{loop.head}` at "
        f"{loop.file or file}:{loop.line} after {unit}; {name_ranks(stayed)} "
        f"{_progress(stayed, rounds, rest, line_of(after), in_steps=in_steps)}, at {inside.site}",
        cause=Cause.UNEVEN_STEPS,
        advice=advice,
    )


def opening(deviation: Deviation) -> str:
    """Say who is out of line; nobody is, if nothing tells who is right."""
    ranks = name_ranks(deviation.out_of_line)
    return f"{ranks} differ" if deviation.is_tie else f"{ranks} fell out of line"


def _progress(ranks: Sequence[int], rounds: int, rest: Sequence[Line], after: Line, *, in_steps: bool) -> str:
    """Say in which step ranks are that stayed in the loop, or how many they made in all."""
    in_loop = rest[0]
    until = rest.index(after) if after in rest else len(rest)
    steps = rounds + sum(1 for line in rest[:until] if line == in_loop)
    if after in rest:
        return f"{verb(ranks, 'makes', 'make')} {steps}"
    return f"{verb(ranks, 'is', 'are')} in {f'step {steps}' if in_steps else f'the {nth(steps)}'}"


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
