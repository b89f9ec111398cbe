"""A call left out, or made once too often: found by laying what the two sides did side by side, as a diff does."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.causes.habit import calls_left_out
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import Line, line_of
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.wording import call_name, call_place, name_ranks, nth, verb


def left_out_by_odd(deviation: Deviation) -> Sequence[Line] | None:
    """Return the calls that the odd ranks have left out, as far as what they did, or what is usual, tells."""
    shift = _shift(deviation.usual_rest, deviation.odd_rest)
    if shift and not _shift(deviation.odd_rest, deviation.usual_rest):
        return deviation.usual_rest[:shift]
    return calls_left_out(deviation.past, line_of(deviation.usual_call), line_of(deviation.odd_call))


def made_once_more_by_odd(deviation: Deviation) -> Sequence[Line] | None:
    """Return the calls that the odd ranks have made beyond those of the others."""
    shift = _shift(deviation.odd_rest, deviation.usual_rest)
    if shift and not _shift(deviation.usual_rest, deviation.odd_rest):
        return deviation.odd_rest[:shift]
    usual, odd = line_of(deviation.usual_call), line_of(deviation.odd_call)
    if deviation.last_call is not None and _is_repeated(deviation.last_call, deviation.odd_call):
        return [odd]
    return calls_left_out(deviation.past, odd, usual)


def _is_repeated(last: Call, call: Call) -> bool:
    """Say whether a call is the last one made again: from the same line, with as much data."""
    return line_of(last) == line_of(call) and (last.num_bytes, last.dtype) == (call.num_bytes, call.dtype)


def is_another_order(deviation: Deviation) -> bool:
    """Say whether both sides make the same calls, each one's first being the other's next."""
    return bool(_shift(deviation.usual_rest, deviation.odd_rest) and _shift(deviation.odd_rest, deviation.usual_rest))


def _shift(longer: Sequence[Line], shorter: Sequence[Line]) -> int:
    """Return how many calls of the one are missing in the other so that the rest agrees; 0 if that is not so.

    >>> _shift("xyz", "yz"), _shift("xy", "z")
    (1, 0)
    """
    for count in range(1, len(longer)):
        if longer[count] == shorter[0]:
            overlap = min(len(longer) - count, len(shorter))
            return count if longer[count : count + overlap] == shorter[:overlap] else 0
    return 0


def explain_left_out(deviation: Deviation, left_out: Sequence[Line]) -> Explanation:
    """Explain ranks that have left out calls."""
    odd, call, next_call = deviation.odd, deviation.usual_call, deviation.odd_call
    name, where = call_name(call), call_place(call, next_call)
    made = _since_last(deviation.past, line_of(next_call), line_of(call))
    more = sum(1 for line in left_out if line == line_of(call))
    summary = (
        f"{name_ranks(odd)} left out the {name} {where}: before {verb(odd, 'its', 'their')} "
        f"{nth(next_call.at_site)} {call_name(next_call)} {call_place(next_call, call)} "
        f"{verb(odd, 'it', 'they')} made {made} of them, {name_ranks(deviation.usual)} "
        f"{verb(deviation.usual, 'makes', 'make')} {made + more}"
    )
    return Explanation(
        ranks=deviation.out_of_line,
        summary=summary,
        cause=Cause.SKIPPED_CALL,
        advice=f"find out why {name_ranks(odd)} left out the {name} {where} (a skipped batch, a caught exception, "
        "condition that only some ranks meet): every rank must make it in every step, with zeros if it has nothing "
        "to add",
    )


def explain_unseen_left_out(deviation: Deviation) -> Explanation:
    """Explain ranks that came to a call before others did, where nothing tells what is usual."""
    odd, call, next_call = deviation.odd, deviation.usual_call, deviation.odd_call
    made = sum(1 for line in deviation.past if line == line_of(call))
    theirs = made + sum(1 for line in deviation.usual_rest if line == line_of(call))
    name, where = call_name(call), call_place(call, next_call)
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} came to the {call_name(next_call)} {call_place(next_call, call)} after {made} "
        f"{'call' if made == 1 else 'calls'} of {name} {where}; {name_ranks(deviation.usual)} "
        f"{verb(deviation.usual, 'is', 'are')} in the {nth(theirs)}",
        cause=Cause.SKIPPED_CALL,
        advice=f"find out whether {name_ranks(odd)} left out the {name} {where} (a skipped batch, a caught exception, "
        f"a condition that only some ranks meet): every rank must make it before the {call_name(next_call)}",
    )


def explain_once_more(deviation: Deviation, extra: Sequence[Line]) -> Explanation:
    """Explain ranks that make calls beyond those of the others."""
    odd, call, next_call = deviation.odd, deviation.odd_call, deviation.usual_call
    name, where = call_name(call), call_place(call, next_call)
    times = "once" if len(extra) == 1 else f"{len(extra)} times"
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} {verb(odd, 'makes', 'make')} the {name} {where} {times} more than the others: "
        f"{name_ranks(deviation.usual)} {verb(deviation.usual, 'has', 'have')} come to the {call_name(next_call)} "
        f"{call_place(next_call, call)}",
        cause=Cause.EXTRA_CALL,
        advice=f"let every rank make the {name} {where} the same number of times: look for a retry, or for a condition "
        f"that is true on {name_ranks(odd)} alone",
    )


def _since_last(past: Sequence[Line], anchor: Line, counted: Line) -> int:
    """Count the calls of a line since the last one of another."""
    since = 0
    for line in reversed(past):
        if line == anchor:
            break
        since += line == counted
    return since


__all__ = [
    "explain_left_out",
    "explain_once_more",
    "explain_unseen_left_out",
    "is_another_order",
    "left_out_by_odd",
    "made_once_more_by_odd",
]
