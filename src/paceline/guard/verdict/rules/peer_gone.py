"""The rule of ended ranks: a rank that others need has exited, raised, been killed, or freed the communicator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.errors import name_ranks
from paceline.guard.shared_memory.layout import ANY
from paceline.guard.verdict.causes.conditional_call import explain_call_of_some
from paceline.guard.verdict.causes.explanation import Explanation
from paceline.guard.verdict.causes.uneven_loop import EVEN_STEPS
from paceline.guard.verdict.finding import Cause, Finding, FindingKind
from paceline.guard.verdict.first_difference import find_first_difference, line_of, shown_difference
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, End, EndKind, Position, RankState
from paceline.guard.verdict.waited_for import directly_needed
from paceline.guard.verdict.wording import call_name, nth, verb

_CRASHES = (4, 6, 7, 8, 11)  # signals that compiled code ends with by itself: ILL, ABRT, BUS, FPE, SEGV
_BY_LAUNCHER = (9, 15)  # signals that launchers end ranks with
_SAME_MOMENT_NS = 50_000_000  # ends within this time count as one event
_ENDED = {EndKind.RAISED: ("raised", "raised"), EndKind.KILLED: ("was killed", "were killed")}
_ADVICE_OF_CAUSE = {
    Cause.OUT_OF_MEMORY: "lower what a rank holds at one time (batch size, workers, caches), or give it more memory",
    Cause.DISK_FULL: "make room on the disk, raise the quota or the limit on file sizes, or write elsewhere",
}


# collectives


def find_peer_gone(inspection: Inspection) -> Finding | None:
    """Find ranks that ended, or freed a communicator, without a collective that others have begun."""
    for identity, known in inspection.snapshot.communicators.items():
        gone = [rank for rank in known.ranks if _has_left(inspection.state(rank), identity)]
        if not gone:
            continue
        position = Position(identity, min(inspection.begun(rank, identity) for rank in gone) + 1)
        waiting = [rank for rank in known.ranks if _needs_others(inspection, rank, position)]
        missing = [rank for rank in gone if inspection.begun(rank, identity) < position.sequence]
        if waiting and missing:
            return _collective_finding(inspection, missing, waiting, position)
    return None


def _has_left(state: RankState | None, communicator: str) -> bool:
    if state is None or state.begun(communicator) is None:  # where it was is not known: it may have made every call
        return False
    return state.end is not None or communicator in state.freed


def _needs_others(inspection: Inspection, rank: int, position: Position) -> bool:
    """Say whether a rank has begun a collective, and no error that it handled has told it to do without."""
    state = inspection.state(rank)
    if state is None or inspection.begun(rank, position.communicator) < position.sequence:
        return False
    call = inspection.call_at(rank, position)
    if call is None:
        return True  # it is long past that position
    if call.has_own_timeout:
        return False
    died_of_it = state.end is not None and state.end.failed_call == call.number
    return died_of_it or (not call.failed and not _may_do_without(state, call))


def _may_do_without(state: RankState, call: Call) -> bool:
    """Say whether a call was only started, and the rank does not wait for it, or only for a time of its own."""
    if not call.request or state.end is not None or all(posted.number != call.number for posted in state.posted):
        return False
    return not any(
        not waiting.call.has_own_timeout and any(request.number == call.number for request in waiting.requests)
        for waiting in state.waiting
    )


def _collective_finding(
    inspection: Inspection, missing: Sequence[int], waiting: Sequence[int], position: Position
) -> Finding:
    differing = find_first_difference(inspection, position)
    calls = {rank: call for rank, call in inspection.calls_at(position).items() if rank in waiting}
    explanation = explain_gone(inspection, missing, waiting, position)
    return explanation.finding(
        FindingKind.PEER_GONE, rank_groups(_with_victims(inspection, explanation.ranks), calls),
        first_difference=shown_difference(inspection, differing),
    )  # fmt: skip


def _with_victims(inspection: Inspection, at_fault: Sequence[int]) -> Inspection:
    """Shorten what is said of ranks that ended because of others: what their library said is about the others."""

    def shortened(state: RankState | None) -> RankState | None:
        end = state.end if state is not None else None
        if state is None or end is None or state.rank in at_fault:
            return state
        by_launcher = end.kind is EndKind.KILLED and end.signal in _BY_LAUNCHER
        return replace(state, end=replace(end, detail="afterwards")) if end.by_peer or by_launcher else state

    snapshot = inspection.snapshot
    return replace(inspection, snapshot=replace(snapshot, ranks=[shortened(state) for state in snapshot.ranks]))


# messages


def find_lost_partner(inspection: Inspection) -> Finding | None:
    """Find a rank that has died of a message, because its library noticed that the other side had ended."""
    for state in inspection.states():
        partners = _partners_that_had_ended(inspection, state)
        if partners:
            explanation = explain_gone(inspection, partners, [state.rank])
            return explanation.finding(FindingKind.PEER_GONE, rank_groups(_with_victims(inspection, explanation.ranks)))
    return None


def _partners_that_had_ended(inspection: Inspection, state: RankState) -> list[int]:
    """Return the ranks that had ended before a message with them failed, and this rank with it."""
    end = state.end
    if end is None or not end.by_peer or end.failed_call is None:
        return []
    call = state.call(end.failed_call)
    if call is None or call.is_collective:
        return []
    partners = [inspection.state(rank) for rank in sorted(_partners(inspection, state, call))]
    return [
        other.rank
        for other in partners
        if other is not None and other.end is not None and not other.end.by_peer and other.end.at_ns <= end.at_ns
    ]


def _partners(inspection: Inspection, state: RankState, call: Call) -> set[int]:
    """Return the ranks that a call certainly needs: of a receive from anybody all, but only once all have ended."""
    needed = directly_needed(inspection, state, call)
    if call.is_collective or ANY not in call.peers or all(map(inspection.has_ended, needed)):
        return needed
    return set()


def find_gone_partner(inspection: Inspection, stuck: frozenset[int]) -> Finding | None:
    """Find ended ranks that stuck ranks exchange messages with, or wait for in a collective."""
    gone: set[int] = set()
    for rank in stuck:
        state = inspection.state(rank)
        assert state is not None
        for waiting in state.waiting:
            for call in waiting.awaited:
                gone |= {other for other in _partners(inspection, state, call) if inspection.has_ended(other)}
    if not gone:
        return None
    return explain_gone(inspection, sorted(gone), sorted(stuck)).finding(FindingKind.PEER_GONE, rank_groups(inspection))


# after the job


def find_first_failure(inspection: Inspection) -> Finding | None:
    """After the job has ended: find ranks that failed by themselves, while others were ended because of it."""
    if inspection.was_aborted():
        return None
    ends = {state.rank: state.end for state in inspection.states() if state.end is not None}
    own = {rank: end for rank, end in ends.items() if _failed_by_itself(inspection.state(rank))}
    if not own or len(own) == len(inspection.snapshot.ranks):
        return None
    if all(end.kind is EndKind.EXITED for rank, end in ends.items() if rank not in own):
        return None
    first = min(end.at_ns for end in own.values())
    at_fault = [rank for rank, end in own.items() if end.at_ns <= first + _SAME_MOMENT_NS]
    explanation = explain_gone(inspection, at_fault, [])
    return explanation.finding(FindingKind.PEER_GONE, rank_groups(_with_victims(inspection, explanation.ranks)))


def _failed_by_itself(state: RankState | None) -> bool:
    end = state.end if state is not None else None
    if state is None or end is None or end.by_peer:
        return False
    if end.kind is EndKind.RAISED:
        call = state.call(end.failed_call)
        return call is None or not call.is_collective
    return end.kind is EndKind.KILLED and end.signal not in (None, 15)


# words


def explain_gone(
    inspection: Inspection, missing: Sequence[int], waiting: Sequence[int], position: Position | None = None
) -> Explanation:
    """Explain ranks that have ended although others need them; `position` is that of a collective they lack."""
    ends: dict[int, End] = {}
    for rank in sorted(missing):
        state = inspection.state(rank)
        if state is not None and state.end is not None:
            ends[rank] = state.end
    ranks = tuple(ends) or tuple(sorted(missing))
    needed = _needed_text(inspection, waiting, ranks, position)
    if not ends:
        return Explanation(
            ranks=ranks, summary=f"{name_ranks(ranks)} freed the communicator; {needed}", cause=Cause.EARLY_EXIT,
            advice="free a communicator, or destroy a group, only after the last collective on it",
        )  # fmt: skip
    first = min(ends.values(), key=lambda end: end.at_ns)
    if first.kind not in _ENDED and position is not None:
        known = _explain_fewer_steps(inspection, ranks, waiting, position)
        known = known or explain_call_of_some(inspection, ranks, waiting, position)
        if known is not None:
            return known
    cause, advice = _cause_of_end(first)
    one, several = _ENDED.get(first.kind, ("ended", "ended"))
    site = f" at {first.site}" if first.site else ""
    detail = f" ({first.detail})" if first.detail else ""
    return Explanation(
        ranks=ranks, summary=f"{name_ranks(ranks)} {verb(ranks, one, several)}{site}{detail}; {needed}", cause=cause,
        advice=advice,
    )  # fmt: skip


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
    if call is None:
        inside = next(state.waiting, None)
        call = inside.call if inside is not None else None
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
