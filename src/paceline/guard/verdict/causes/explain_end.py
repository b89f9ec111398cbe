"""Why ranks ended although others need them, in words: how, where, inside which call, and what to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.guard.verdict.causes.conditional_call import explain_call_of_some
from paceline.guard.verdict.causes.deviation import find_deviation
from paceline.guard.verdict.causes.explain_deviation import explain_deviation
from paceline.guard.verdict.causes.lost_messages.missing_message import explain_missing_message
from paceline.guard.verdict.causes.recursion_depth import calls_itself
from paceline.guard.verdict.causes.uneven_loop import EVEN_STEPS, advise_on_loop
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import find_first_difference, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.order_of_ends import open_call
from paceline.guard.verdict.snapshot import Call, End, EndKind, Position
from paceline.guard.verdict.source.passed_over import is_told_to_pass_over, outermost_loop
from paceline.guard.verdict.source.user_source import relate
from paceline.guard.verdict.wording import call_name, in_part_text, name_rank, name_ranks, nth, verb

_CRASHES = (4, 6, 7, 8, 11)  # signals that compiled code ends with by itself: ILL, ABRT, BUS, FPE, SEGV
_ENDED = {EndKind.RAISED: ("raised", "raised"), EndKind.KILLED: ("was killed", "were killed")}
_ADVICE_OF_CAUSE = {
    Cause.OUT_OF_MEMORY: "lower what a rank holds at one time (batch size, workers, caches), or give it more memory",
    Cause.HANDLE_LEAK: "make communicators, windows and reductions once, before the loop, or free each after its use",
    Cause.DISK_FULL: "make room on the disk, raise the quota or the limit on file sizes, or write elsewhere",
}


BECAUSE_OF_IT = "the other ranks were ended because of it"


def explain_end(
    inspection: Inspection, missing: Sequence[int], waiting: Sequence[int], position: Position | None = None,
    *, is_first: bool = True, others_text: str = BECAUSE_OF_IT,
) -> list[Explanation]:  # fmt: skip
    """Explain ranks that have ended although others need them.

    Args:
        inspection: The job.
        missing: The ranks that ended, or freed the communicator.
        waiting: The ranks that need them.
        position: The collective that they lack, if it is one.
        is_first: Whether it is certain that no other rank failed before them.
        others_text: What became of the others, if nobody waits.
    """
    ends: dict[int, End] = {}
    for rank in sorted(missing):
        state = inspection.state(rank)
        if state is not None and state.end is not None:
            ends[rank] = state.end
    ranks = tuple(ends) or tuple(sorted(missing))
    needed = _needed_text(inspection, waiting, ranks, position) if waiting else others_text
    if inspection.out_of_sight() and all(end.kind is EndKind.EXITED for end in ends.values()):
        return [_explain_in_part(inspection, ranks, waiting, needed)]
    if not ends and (finalized := _finalized_at(inspection, ranks)):
        return [
            Explanation(
                ranks=ranks, summary=f"{name_ranks(ranks)} called MPI.Finalize at {finalized}; {needed}",
                cause=Cause.EARLY_EXIT,
                advice=f"let every rank make the same calls before MPI.Finalize at {finalized}: see which condition "
                f"leads {name_ranks(ranks)} there early",
            )
        ]  # fmt: skip
    if not ends:
        known = _explain_by_history(inspection, ranks, waiting, position) if position is not None else []
        return known or [
            Explanation(
                ranks=ranks, summary=f"{name_ranks(ranks)} freed the communicator; {needed}", cause=Cause.EARLY_EXIT,
                advice="free a communicator, or destroy a group, only after the last collective on it",
            )
        ]  # fmt: skip
    first = min(ends.values(), key=lambda end: end.at_ns)
    if first.kind not in _ENDED and not _has_failed(first):
        known = _explain_by_history(inspection, ranks, waiting, position) if position is not None else []
        known = known or explain_missing_message(inspection, ranks, waiting)
        if known:
            return known
    cause, advice = _cause_of_end(first)
    if not is_first:
        needed = "which of them was first, and why, cannot be told"
    summary = f"{name_ranks(ranks)} {_how_text(inspection, ranks, first)}; {needed}"
    return [Explanation(ranks=ranks, summary=summary, cause=cause, advice=advice)]


def _explain_in_part(inspection: Inspection, left: tuple[int, ...], waiting: Sequence[int], needed: str) -> Explanation:
    """Explain ranks that left by themselves while others are out of sight: those who wait may be the odd ones."""
    line = _exit_line(inspection, left)
    ended = all(map(inspection.has_ended, left))
    how = f"ended{f' ({line})' if line else ''}" if ended else "freed the communicator"
    return Explanation(
        ranks=tuple(sorted({*left, *waiting})),
        summary=f"{name_ranks(left)} {how}; {needed}; {in_part_text(inspection.out_of_sight())}",
        cause=Cause.EARLY_EXIT,
        advice="let every rank make the same number of calls before it ends",
    )


def _finalized_at(inspection: Inspection, ranks: Sequence[int]) -> str:
    """Return the line at which ranks have called Finalize, if all have, at one line."""
    states = [inspection.state(rank) for rank in ranks]
    sites = {state.finalized_at if state is not None else "" for state in states}
    return sites.pop() if len(sites) == 1 else ""


def _has_failed(end: End) -> bool:
    """Say whether a rank exited with an error that no line of the script stands for: a library ended the process."""
    return bool(end.exit_code) and not end.site


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
        advice = f"fix the exception raised at {end.origin or end.site}, or notify the other ranks before exiting"
    elif end.kind is EndKind.KILLED:
        cause = end.cause or Cause.KILLED
        advice = "find out who sent the signal: the system's log, the batch system, another program"
        if end.signal in _CRASHES:
            advice = "look for a fault in compiled code that this rank runs: start it with -X faulthandler"
    else:
        cause, advice = Cause.EARLY_EXIT, "let every rank make the same calls before it ends"
        if _has_failed(end):
            advice = f"see what the rank has printed: something has ended it with exit code {end.exit_code}"
    return cause, _ADVICE_OF_CAUSE.get(cause, advice)


def _needed_text(
    inspection: Inspection, waiting: Sequence[int], ended: Sequence[int], position: Position | None
) -> str:
    """Say what those who need the ended ranks do."""
    state = inspection.state(waiting[0])
    assert state is not None
    call = inspection.call_at(waiting[0], position) if position is not None else None
    if call is None and state.end is not None:
        failed = state.call(state.end.failed_call)
        if failed is not None:
            return f"{name_ranks(waiting)} failed in {call_name(failed)} at {failed.site} because of it"
    call = call or open_call(state)
    where = f" in {call_name(call)} at {call.site}" if call is not None else ""
    waits = "waited" if _have_ended(inspection, waiting) else verb(waiting, "waits", "wait")
    return f"{name_ranks(waiting)} {waits} for {verb(ended, 'it', 'them')}{where}"


def _have_ended(inspection: Inspection, waiting: Sequence[int]) -> bool:
    """Say whether nobody waits any more: launchers kill those that an ended rank has left waiting."""
    return all(map(inspection.has_ended, waiting))


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
    are, wait = verb(waiting, "is", "are"), verb(waiting, "waits", "wait")
    if _have_ended(inspection, waiting):
        are, wait = verb(waiting, "was", "were"), "waited"
    line = _exit_line(inspection, ended)
    loop = outermost_loop(inspection, call)
    cause = Cause.UNEVEN_STEPS
    advice = advise_on_loop(inspection, call, loop, loop.file) if loop is not None else EVEN_STEPS
    if calls_itself(call):
        advice = (
            f"let every rank call the function at {call.site} to the same depth: decide together what ends it, by an "
            "all_reduce of the flag or of the value"
        )
    if loop is not None and is_told_to_pass_over(inspection, call, loop, loop.file):
        cause, advice = Cause.SKIPPED_CALL, _find_left_out(ended, call)
    calls = f"after {rounds} {'call' if rounds == 1 else 'calls'}"
    state = inspection.state(ended[0])
    last = open_call(state) if state is not None else None
    is_inside = last is not None and line_of(last) == line_of(call)  # a function that the call itself calls has left
    if is_inside:
        calls = f"inside {verb(ended, 'its', 'their')} {nth(rounds)} call"
    if line and (is_inside or _is_told_to_end(inspection, ended[0], call)):
        cause = Cause.EARLY_EXIT
        advice = (
            f"find out why {name_ranks(ended)} came to {line}: decide together (an all_reduce of a flag) when to end, "
            "and end all ranks after the same call"
        )
    return Explanation(
        ranks=ended,
        summary=f"{name_ranks(ended)} {_left_text(inspection, ended)}{f' ({line})' if line else ''} {calls} of "
        f"{call_name(call)} at {call.site}; {name_ranks(waiting)} {are} in the {nth(more)} and {wait} for "
        f"{verb(ended, 'it', 'them')}",
        cause=cause,
        advice=advice,
    )


def _find_left_out(ended: Sequence[int], call: Call) -> str:
    return (
        f"find out whether {name_ranks(ended)} left out the {call_name(call)} at {call.site} (a skipped batch, a "
        "caught exception, a condition that only some ranks meet): every rank must make it as often as the others"
    )


def _left_text(inspection: Inspection, ranks: Sequence[int]) -> str:
    return "ended" if all(map(inspection.has_ended, ranks)) else "freed the communicator"


def _is_told_to_end(inspection: Inspection, rank: int, call: Call) -> bool:
    """Say whether a rank was ended from inside the loop of a call, and did not leave the loop before."""
    state = inspection.state(rank)
    site = state.end.site if state is not None and state.end is not None else ""
    frames = (call.site, *call.callers)
    file, _, line = site.rpartition(":")
    source = inspection.sources(file) if file else None
    if source is None or site in frames:  # as in sys.exit(main()), by which every rank ends
        return False
    for frame in frames:
        other_file, _, other_line = frame.rpartition(":")
        relation = relate(source, int(other_line), int(line)) if other_file == file else None
        if relation is not None:
            return relation.share_a_loop
    return True  # in a function of its own: a handler, a callback


def _num_calls_from(call: Call, past: Mapping[int, Call]) -> int:
    """Count the calls from a line; those of a function that calls itself at any depth."""
    if calls_itself(call):
        return sum(1 for other in past.values() if (other.operation, other.site) == (call.operation, call.site))
    return sum(1 for other in past.values() if line_of(other) == line_of(call))


def _exit_line(inspection: Inspection, ranks: Sequence[int]) -> str:
    """Name the line by which ranks have ended, if it was one that ends them."""
    state = inspection.state(ranks[0])
    end = state.end if state is not None else None
    return f"{end.detail} at {end.site}" if end is not None and end.site else ""


def explain_late(inspection: Inspection, late: Sequence[int], gave_up: int, call: Call) -> Explanation:
    """Explain a collective whose own time limit ran out."""
    doing = ""
    state = inspection.state(late[0])
    last = state.history[-1] if state is not None and state.history else None
    if last is not None:
        doing = f"; {verb(late, 'its', 'their')} last call was {call_name(last)} at {last.site}"
    return Explanation(
        ranks=tuple(late),
        summary=f"{name_ranks(late)} had not come to the {call_name(call)} at {call.site} when the time limit of "
        f"{name_rank(gave_up)} ran out there{doing}",
        cause=Cause.TIMEOUT,
        advice=f"see what keeps {name_ranks(late)} from the {call_name(call)} at {call.site}, or give it a longer time "
        "limit",
    )
