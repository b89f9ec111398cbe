"""A function that calls itself, and makes a collective each time: ranks have come to different depths of it."""

from __future__ import annotations

from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.wording import call_name, name_ranks, verb

_MOST_TOLD = 3  # levels that a rank tells apart: a site is known by its innermost frames


def calls_itself(call: Call) -> bool:
    """Say whether a function has come to a call through itself: a line is then twice among its callers."""
    return len({*call.callers}) < len(call.callers)


def explain_depth(deviation: Deviation) -> Explanation | None:
    """Explain ranks that make one call at different depths of a function that calls itself; None if they do not."""
    usual, odd = deviation.usual_call, deviation.odd_call
    line = next((line for call in (usual, odd) for line in call.callers if call.callers.count(line) > 1), None)
    if line is None or (usual.operation, usual.site) != (odd.operation, odd.site):
        return None
    if usual.callers.count(line) == odd.callers.count(line) or not _share_the_rest(usual, odd, line):
        return None
    name = f"{call_name(odd)} at {odd.site}"
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"ranks call the function that calls itself at {line} to different depths: "
        f"{name_ranks(deviation.odd)} {verb(deviation.odd, 'makes', 'make')} the {name} {_levels(odd, line)} deep, "
        f"where {name_ranks(deviation.usual)} {verb(deviation.usual, 'makes', 'make')} it {_levels(usual, line)} deep",
        cause=Cause.UNEVEN_STEPS,
        advice=f"let every rank come to the {name} at the same depths: decide together whether the function calls "
        f"itself at {line} (an all_reduce of the flag, or of the value that it depends on), or make the collective "
        "once, outside of it",
    )


def _share_the_rest(one: Call, other: Call, line: str) -> bool:
    """Say whether two calls came there from the same outer lines, as far as these are known."""
    rest, others = ([caller for caller in call.callers if caller != line] for call in (one, other))
    return all(mine == theirs for mine, theirs in zip(rest, others, strict=False))


def _levels(call: Call, line: str) -> str:
    number = call.callers.count(line)
    more = " or more" if number >= _MOST_TOLD else ""
    return f"{number}{more} {'level' if number == 1 else 'levels'}"
