"""A call left out, or made once too often: found by laying what the two sides did side by side, as a diff does."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.guard.shared_memory.operations import shown_name
from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.causes.habit import calls_left_out, left_out_of_round
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import Line, line_of
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.user_source import SourceBlock
from paceline.guard.verdict.wording import call_name, name_ranks, nth, verb

_MAX_NAMED = 2  # further calls that a sentence names


def left_out_by_odd(deviation: Deviation) -> Sequence[Line] | None:
    """Return the calls that the odd ranks have left out, as far as what they did, or what is usual, tells."""
    shift = _shift(deviation.usual_rest, deviation.odd_rest)
    if shift and not _shift(deviation.odd_rest, deviation.usual_rest):
        return deviation.usual_rest[:shift]
    return calls_left_out(deviation.past, line_of(deviation.usual_call), line_of(deviation.odd_call))


def made_once_more_by_odd(deviation: Deviation) -> Sequence[Line] | None:
    """Return the calls that the odd ranks have made beyond those of the others."""
    shift = _shift(deviation.odd_rest, deviation.usual_rest)
    # In a loop the odd ranks come to the others' calls again, whatever they have left out. So it must be seen that the
    # others come to the odd call as well, and that the odd ranks have not only come to it sooner.
    is_seen = deviation.odd_rest[0] in deviation.usual_rest
    if shift and is_seen and not _shift(deviation.usual_rest, deviation.odd_rest):
        return deviation.odd_rest[:shift]
    if deviation.last_call is not None and _is_repeated(deviation.last_call, deviation.odd_call):
        return [line_of(deviation.odd_call)]
    return None


def left_out_by_most(deviation: Deviation) -> Sequence[Line] | None:
    """Return the calls that all but the odd ranks have left out, where earlier rounds had them."""
    return left_out_of_round(deviation.past, line_of(deviation.odd_call), line_of(deviation.usual_call))


def _is_repeated(last: Call, call: Call) -> bool:
    """Say whether a call is the last one made again: from the same line, with as much data."""
    return line_of(last) == line_of(call) and (last.num_bytes, last.dtype) == (call.num_bytes, call.dtype)


def is_another_order(deviation: Deviation) -> bool:
    """Say whether both sides make the same calls, each one's first being the other's next.

    Ranks that run ahead in a loop come to every call again: what is usual tells that one was left out there.
    """
    usual, odd = deviation.usual_rest, deviation.odd_rest
    is_in_habit = calls_left_out(deviation.past, usual[0], odd[0]) or calls_left_out(deviation.past, odd[0], usual[0])
    return not is_in_habit and bool(_shift(usual, odd) and _shift(odd, usual))


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
    name, where = call_name(call), deviation.place(call)
    made = _since_last(deviation.past, line_of(next_call), line_of(call))
    more = sum(1 for line in left_out if line == line_of(call))
    also = _also_text(left_out, line_of(call))
    summary = (
        f"{name_ranks(odd)} left out the {name} {where}{also}: {_since_text(deviation)} "
        f"{verb(odd, 'it', 'they')} made {made} of {'the first' if also else 'them'}, "
        f"{name_ranks(deviation.usual)} "
        f"{verb(deviation.usual, 'makes', 'make')} {made + more}"
    )
    return Explanation(
        ranks=deviation.out_of_line,
        summary=summary,
        cause=Cause.SKIPPED_CALL,
        advice=f"find out why {name_ranks(odd)} left out the {name} {where}{also} (a skipped batch, a caught "
        f"exception, a condition that only some ranks meet): every rank must make {'them' if also else 'it'} as often "
        f"as the others{_with_zeros(call)}",
    )


def _since_text(deviation: Deviation) -> str:
    """Name the calls between which the odd ranks made one call less: their last of the line they are at, and this."""
    call, its = deviation.odd_call, verb(deviation.odd, "its", "their")
    name = f"{call_name(call)} {deviation.place(call)}"
    num_before = sum(1 for line in deviation.past if line == line_of(call))
    if not num_before:
        return f"before {its} first {name}"
    # a rank may forget its first calls; what it counts itself is less than that if one line makes a call in two ways
    number = max(call.at_site, num_before + 1)
    return f"between {its} {nth(number - 1)} and {its} {nth(number)} {name}"


def _also_text(left_out: Sequence[Line], first: Line) -> str:
    """Name the other calls that were left out together with the first."""
    others = list(dict.fromkeys((line[0], line[1]) for line in left_out if line != first))
    named = "".join(f" and the {shown_name(operation)} at {site}" for operation, site in others[:_MAX_NAMED])
    return named + (f" and {len(others) - _MAX_NAMED} more" if len(others) > _MAX_NAMED else "")


def explain_unseen_left_out(deviation: Deviation) -> Explanation:
    """Explain ranks that came to a call before others did, where nothing tells what is usual."""
    odd, call, next_call = deviation.odd, deviation.usual_call, deviation.odd_call
    made = sum(1 for line in deviation.past if line == line_of(call))
    theirs = made + sum(1 for line in deviation.usual_rest if line == line_of(call))
    name, where = call_name(call), deviation.place(call)
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} came to the {call_name(next_call)} {deviation.place(next_call)} after {made} "
        f"{'call' if made == 1 else 'calls'} of {name} {where}; {name_ranks(deviation.usual)} "
        f"{verb(deviation.usual, 'is', 'are')} in the {nth(theirs)}",
        cause=Cause.SKIPPED_CALL,
        advice=f"find out whether {name_ranks(odd)} left out the {name} {where} (a skipped batch, a caught exception, "
        f"a condition that only some ranks meet): every rank must make it before the {call_name(next_call)}"
        f"{_with_zeros(call)}",
    )


def explain_passed_over(deviation: Deviation) -> Explanation:
    """Explain ranks that went on to the next round without a call that the others have come to."""
    odd, call, next_call = deviation.odd, deviation.usual_call, deviation.odd_call
    made = sum(1 for line in deviation.past if line == line_of(next_call))
    name, where = call_name(call), deviation.place(call)
    again = f"the {nth(made + 1)} {call_name(next_call)} {deviation.place(next_call)}"
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} {verb(odd, 'makes', 'make')} {again} without the {name} {where}, to which "
        f"{name_ranks(deviation.usual)} {verb(deviation.usual, 'has', 'have')} come before it",
        cause=Cause.SKIPPED_CALL,
        advice=f"find out why {name_ranks(odd)} passed over the {name} {where} (an early return, an empty list, a "
        f"caught exception, a condition that only some ranks meet): every rank must make it as often as the others"
        f"{_with_zeros(call)}",
    )


def explain_clean_up(deviation: Deviation, block: SourceBlock, file: str) -> Explanation:
    """Explain ranks that only an exception can have led to their call, which stands in an `except` or a `finally`."""
    odd, call, next_call = deviation.odd, deviation.usual_call, deviation.odd_call
    made = sum(1 for line in deviation.past if line == line_of(call))
    where = f"the `{block.head}` of the `try` at {block.file or file}:{block.line}"
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"an exception led {name_ranks(odd)} to the {call_name(next_call)} {deviation.place(next_call)}, in "
        f"{where}, after {made} {'call' if made == 1 else 'calls'} of {call_name(call)} {deviation.place(call)}; "
        f"{name_ranks(deviation.usual)} {verb(deviation.usual, 'makes', 'make')} another",
        cause=Cause.SKIPPED_CALL,
        advice=f"see which exception it was, and make no collective in {where}: ranks without the exception do not "
        "come to it in the same step",
    )


def explain_came_early(deviation: Deviation, condition: SourceBlock, file: str) -> Explanation:
    """Explain ranks for which a condition came true earlier than for others."""
    odd, call, next_call = deviation.odd, deviation.usual_call, deviation.odd_call
    made = _since_last(deviation.past, line_of(next_call), line_of(call))
    name = f"{call_name(next_call)} {deviation.place(next_call)}"
    where = f"the `if {condition.head}` at {condition.file or file}:{condition.line}"
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} {verb(odd, 'comes', 'come')} to the {name} after {made} "
        f"{'call' if made == 1 else 'calls'} of {call_name(call)} {deviation.place(call)}, where "
        f"{name_ranks(deviation.usual)} {verb(deviation.usual, 'makes', 'make')} another: {where} came out "
        "differently",
        cause=Cause.RANK_CONDITIONAL_CALL,
        advice=f"let {where} come out the same on every rank: what it tests must not differ between ranks",
    )


def _with_zeros(call: Call) -> str:
    """Say what a rank without data brings to a reduction."""
    return ", with zeros if it has nothing to add" if "reduce" in call_name(call).lower() else ""


def explain_once_more(deviation: Deviation, condition: SourceBlock | None = None, file: str = "") -> Explanation:
    """Explain ranks that make calls beyond those of the others."""
    odd, call, next_call = deviation.odd, deviation.odd_call, deviation.usual_call
    name, where = call_name(call), deviation.place(call)
    made = sum(1 for line in deviation.past if line == line_of(call))
    again = f" again, after {made} of them," if made else ""
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} {verb(odd, 'makes', 'make')} the {name} {where}{again} where "
        f"{name_ranks(deviation.usual)} {verb(deviation.usual, 'has', 'have')} come to the {call_name(next_call)} "
        f"{deviation.place(next_call)}",
        cause=Cause.EXTRA_CALL,
        advice=f"let every rank make the {name} {where} the same number of times: look for a retry, or for "
        + (
            f"what makes the `if {condition.head}` at {condition.file or file}:{condition.line} true on "
            f"{name_ranks(odd)} alone"
            if condition is not None
            else f"a condition that is true on {name_ranks(odd)} alone"
        ),
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
    "explain_came_early",
    "explain_clean_up",
    "explain_left_out",
    "explain_once_more",
    "explain_passed_over",
    "explain_unseen_left_out",
    "is_another_order",
    "left_out_by_most",
    "left_out_by_odd",
    "made_once_more_by_odd",
]
