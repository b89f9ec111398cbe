"""Why ranks ended although others need them, in words: how, where, inside which call, and what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.guard.verdict.causes.conditional_call import explain_call_of_some
from paceline.guard.verdict.causes.deviation import find_deviation
from paceline.guard.verdict.causes.explain_deviation import explain_deviation
from paceline.guard.verdict.causes.uneven_loop import EVEN_STEPS
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import find_first_difference, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.order_of_ends import open_call
from paceline.guard.verdict.snapshot import Call, End, EndKind, Position
from paceline.guard.verdict.wording import call_name, name_ranks, nth, verb

_CRASHES = (4, 6, 7, 8, 11)  # signals that compiled code ends with by itself: ILL, ABRT, BUS, FPE, SEGV
_ENDED = {EndKind.RAISED: ("raised", "raised"), EndKind.KILLED: ("was killed", "were killed")}
_ADVICE_OF_CAUSE = {
    Cause.OUT_OF_MEMORY: "lower what a rank holds at one time (batch size, workers, caches), or give it more memory",
    Cause.DISK_FULL: "make room on the disk, raise the quota or the limit on file sizes, or write elsewhere",
}


def explain_end(
    inspection: Inspection, missing: Sequence[int], waiting: Sequence[int], position: Position | None = None,
    *, is_first: bool = True,
) -> list[Explanation]:  # fmt: skip
    """Explain ranks that have ended although others need them.

    Args:
        inspection: The job.
        missing: The ranks that ended, or freed the communicator.
        waiting: The ranks that need them.
        position: The collective that they lack, if it is one.
        is_first: Whether it is certain that no other rank failed before them.
    """
    ends: dict[int, End] = {}
    for rank in sorted(missing):
        state = inspection.state(rank)
        if state is not None and state.end is not None:
            ends[rank] = state.end
    ranks = tuple(ends) or tuple(sorted(missing))
    needed = _needed_text(inspection, waiting, ranks, position)
    if not ends:
        return [
            Explanation(
                ranks=ranks, summary=f"{name_ranks(ranks)} freed the communicator; {needed}", cause=Cause.EARLY_EXIT,
                advice="free a communicator, or destroy a group, only after the last collective on it",
            )
        ]  # fmt: skip
    first = min(ends.values(), key=lambda end: end.at_ns)
    if first.kind not in _ENDED and position is not None:
        known = _explain_by_history(inspection, ranks, waiting, position)
        if known:
            return known
    cause, advice = _cause_of_end(first)
    if not is_first:
        needed = "which of them was first, and why, cannot be told"
    summary = f"{name_ranks(ranks)} {_how_text(inspection, ranks, first)}; {needed}"
    return [Explanation(ranks=ranks, summary=summary, cause=cause, advice=advice)]


def _explain_by_history(
    inspection: Inspection, ended: tuple[int, ...], waiting: Sequence[int], position: Position
) -> list[Explanation]:
    """Explain ranks that came to their end by themselves: what they did before tells why others miss them."""
    deviation = find_deviation(inspection, find_first_difference(inspection, position))
    if deviation is not None:
        return explain_deviation(inspection, deviation)
    known = _explain_fewer_steps(inspection, ended, waiting, position)
    known = known or explain_call_of_some(inspection, ended, waiting, position)
    return [known] if known is not None else []


def _how_text(inspection: Inspection, ranks: Sequence[int], end: End) -> str:
    """Say how ranks ended: by what, at which line, inside which call."""
    one, several = _ENDED.get(end.kind, ("ended", "ended"))
    site = f" at {end.site}" if end.site else ""
    detail = f" ({end.detail})" if end.detail else ""
    inside = ""
    state = inspection.state(ranks[0])
    call = open_call(state) if state is not None else None
    if call is not None and end.kind is EndKind.KILLED:
        inside = f" inside {call_name(call)} at {call.site}"
    return f"{verb(ranks, one, several)}{site}{detail}{inside}"


def _cause_of_end(end: End) -> tuple[Cause, str]:
    """Return why a rank ended, and what to change."""
    if end.kind is EndKind.RAISED:
        cause = end.cause or Cause.EXCEPTION
        advice = f"fix the exception raised at {end.site}, or notify the other ranks before exiting"
    elif end.kind is EndKind.KILLED:
        cause = end.cause or Cause.KILLED
        advice = "find out who sent the signal: the system's log, the batch system, another program"
        if end.signal in _CRASHES:
            advice = "look for a fault in compiled code that this rank runs: start it with -X faulthandler"
    else:
        cause, advice = Cause.EARLY_EXIT, "let every rank make the same calls before it ends"
    return cause, _ADVICE_OF_CAUSE.get(cause, advice)


def _needed_text(
    inspection: Inspection, waiting: Sequence[int], ended: Sequence[int], position: Position | None
) -> str:
    """Say what those who need the ended ranks do."""
    if not waiting:
        return "the other ranks were ended because of it"
    state = inspection.state(waiting[0])
    assert state is not None
    call = inspection.call_at(waiting[0], position) if position is not None else None
    if call is None and state.end is not None:
        failed = state.call(state.end.failed_call)
        if failed is not None:
            return f"{name_ranks(waiting)} failed in {call_name(failed)} at {failed.site} because of it"
    call = call or open_call(state)
    where = f" in {call_name(call)} at {call.site}" if call is not None else ""
    return f"{name_ranks(waiting)} {verb(waiting, 'waits', 'wait')} for {verb(ended, 'it', 'them')}{where}"


def _explain_fewer_steps(
    inspection: Inspection, ended: tuple[int, ...], waiting: Sequence[int], position: Position
) -> Explanation | None:
    """Explain a rank that ended while others still call from a line that it had called from before."""
    call = inspection.call_at(waiting[0], position) if waiting else None
    if call is None:
        return None
    rounds = _num_calls_from(call, inspection.collectives(ended[0], position.communicator))
    if rounds == 0:
        return None
    more = _num_calls_from(call, inspection.collectives(waiting[0], position.communicator))
    return Explanation(
        ranks=ended,
        summary=f"{name_ranks(ended)} ended{_exit_text(inspection, ended)} after {rounds} "
        f"{'call' if rounds == 1 else 'calls'} of {call_name(call)} at {call.site}; {name_ranks(waiting)} "
        f"{verb(waiting, 'is', 'are')} in the {nth(more)} and {verb(waiting, 'waits', 'wait')} for "
        f"{verb(ended, 'it', 'them')}",
        cause=Cause.UNEVEN_STEPS,
        advice=EVEN_STEPS,
    )


def _num_calls_from(call: Call, past: Mapping[int, Call]) -> int:
    return sum(1 for other in past.values() if line_of(other) == line_of(call))


def _exit_text(inspection: Inspection, ranks: Sequence[int]) -> str:
    """Name the line by which ranks have ended, if it was one that ends them."""
    state = inspection.state(ranks[0])
    end = state.end if state is not None else None
    return f" ({end.detail} at {end.site})" if end is not None and end.site else ""


def explain_late(inspection: Inspection, late: Sequence[int], gave_up: int, call: Call) -> Explanation:
    """Explain a collective whose own time limit ran out."""
    doing = ""
    state = inspection.state(late[0])
    last = state.history[-1] if state is not None and state.history else None
    if last is not None:
        doing = f"; {verb(late, 'its', 'their')} last call was {call_name(last)} at {last.site}"
    return Explanation(
        ranks=tuple(late),
        summary=f"{name_ranks(late)} had not come to the {call_name(call)} at {call.site} when the time limit of rank "
        f"{gave_up} ran out there{doing}",
        cause=Cause.TIMEOUT,
        advice=f"see what keeps {name_ranks(late)} from the {call_name(call)} at {call.site}, or give it a longer time "
        "limit",
    )
