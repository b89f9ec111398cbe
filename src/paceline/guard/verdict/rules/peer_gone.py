"""The rule of ended ranks: a rank that others need has exited, raised, been killed, or freed the communicator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paceline.guard.shared_memory.layout import ANY, NONBLOCKING
from paceline.guard.shared_memory.operations import Needs
from paceline.guard.verdict.causes.explain_end import explain_end, explain_late
from paceline.guard.verdict.finding import Finding, FindingKind, explained_finding
from paceline.guard.verdict.first_difference import find_first_difference, shown_difference
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.order_of_ends import (
    FirstFailure,
    first_failure,
    is_victim,
    may_be_ended_by_launcher,
    open_call,
)
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, End, EndKind, Position, RankState
from paceline.guard.verdict.waited_for import directly_needed

# collectives


def find_peer_gone(inspection: Inspection) -> Finding | None:
    """Find ranks that ended, or freed a communicator, without a collective that others have begun."""
    first = first_failure(inspection)
    for identity, known in inspection.snapshot.communicators.items():
        gone = [rank for rank in known.ranks if _has_left(inspection.state(rank), identity)]
        if not gone:
            continue
        completed = {rank: _completed(inspection, rank, identity) for rank in gone}
        position = Position(identity, min(completed.values()) + 1)
        waiting = [rank for rank in known.ranks if _needs_others(inspection, rank, position)]
        missing = [rank for rank in gone if completed[rank] < position.sequence]
        if waiting and missing:
            return _collective_finding(inspection, missing, waiting, position, first)
    return None


def _has_left(state: RankState | None, communicator: str) -> bool:
    if state is None or state.begun(communicator) is None:  # where it was is not known: it may have made every call
        return False
    return state.end is not None or communicator in state.freed


def _completed(inspection: Inspection, rank: int, communicator: str) -> int:
    """Return how many collectives a rank has been through: one that it died inside does not count."""
    begun, state = inspection.begun(rank, communicator), inspection.state(rank)
    call = open_call(state) if state is not None and state.end is not None else None
    died_inside = call is not None and call.is_collective and call.position == Position(communicator, begun)
    return begun - 1 if died_inside else begun


def _needs_others(inspection: Inspection, rank: int, position: Position) -> bool:
    """Say whether a rank has begun a collective, and no error that it handled has told it to do without."""
    state = inspection.state(rank)
    if state is None or inspection.begun(rank, position.communicator) < position.sequence:
        return False
    call = inspection.call_at(rank, position)
    if state.end is not None:  # it waits for nobody, but its library may have failed because others had ended
        return call is not None and state.end.by_peer and state.end.failed_call == call.number
    if call is None:
        return True  # it is long past that position
    if _has_met_all(call):
        return False
    return not call.has_own_timeout and not call.failed and not _may_do_without(state, call)


def _has_met_all(call: Call) -> bool:
    """Say whether a call is over that nobody leaves before all have come: then nobody was missing."""
    is_over = call.left_ns != 0 and not call.failed and not call.flags & NONBLOCKING
    return is_over and call.traits.needs is Needs.ALL and call.num_bytes != 0


def _may_do_without(state: RankState, call: Call) -> bool:
    """Say whether a call has returned, or was only started and the rank does not wait for it, or not for long."""
    if not call.request or all(posted.number != call.number for posted in state.posted):
        return False
    return not any(
        not waiting.call.has_own_timeout and any(request.number == call.number for request in waiting.requests)
        for waiting in state.waiting
    )


def _collective_finding(
    inspection: Inspection, missing: Sequence[int], waiting: Sequence[int], position: Position,
    first: FirstFailure | None,
) -> Finding:  # fmt: skip
    states = [inspection.state(rank) for rank in missing]
    at_fault = [state.rank for state in states if state is not None and not is_victim(state, first)]
    if not at_fault and first is not None:  # those that others miss were ended because of another
        at_fault = list(first.ranks)
    calls = {rank: call for rank, call in inspection.calls_at(position).items() if rank in waiting}
    explanations = explain_end(inspection, at_fault or missing, waiting, position)
    return explained_finding(
        FindingKind.PEER_GONE, explanations, rank_groups(_with_victims(inspection, first), calls),
        first_difference=shown_difference(inspection, find_first_difference(inspection, position)),
    )  # fmt: skip


def _with_victims(inspection: Inspection, first: FirstFailure | None) -> Inspection:
    """Shorten what is said of ranks that ended because of others: what their library said is about the others."""

    def shortened(state: RankState | None) -> RankState | None:
        if state is None or state.end is None or not is_victim(state, first):
            return state
        return replace(state, end=replace(state.end, detail="afterwards"))

    snapshot = inspection.snapshot
    return replace(inspection, snapshot=replace(snapshot, ranks=[shortened(state) for state in snapshot.ranks]))


def find_late(inspection: Inspection) -> Finding | None:
    """Find a collective whose own time limit has run out in a rank, and who had not come to it."""
    for state in inspection.states():
        call = state.call(state.end.failed_call) if state.end is not None and state.end.timed_out else None
        if call is None or not call.is_collective:
            continue
        late = sorted(inspection.missing_at(call.position))
        if late and len(late) < len(inspection.snapshot.ranks):
            first = FirstFailure(ranks=(state.rank,), at_ns=state.end.at_ns if state.end is not None else 0)
            explanation = explain_late(inspection, late, state.rank, call)
            return explained_finding(
                FindingKind.DEADLOCK, explanation, rank_groups(_with_victims(inspection, first), {state.rank: call})
            )
    return None


def find_exit_before_kill(inspection: Inspection) -> Finding | None:
    """Find ranks that exited without a collective in which others were, until the launcher killed those for it."""
    for state in inspection.states():
        call = open_call(state)
        if state.end is None or not may_be_ended_by_launcher(state.end) or call is None or not call.is_collective:
            continue
        missing = [inspection.state(rank) for rank in sorted(inspection.missing_at(call.position))]
        exited = [other.rank for other in missing if other is not None and _exited_before(other, state.end)]
        if exited:
            first = FirstFailure(ranks=tuple(exited), at_ns=0)
            return explained_finding(
                FindingKind.PEER_GONE, explain_end(inspection, exited, [state.rank], call.position),
                rank_groups(_with_victims(inspection, first), {state.rank: call}),
                first_difference=shown_difference(inspection, find_first_difference(inspection, call.position)),
            )  # fmt: skip
    return None


def _exited_before(state: RankState, end: End) -> bool:
    return state.end is not None and state.end.kind is EndKind.EXITED and state.end.at_ns < end.at_ns


# messages


def find_lost_partner(inspection: Inspection) -> Finding | None:
    """Find a rank that has died of a message, because its library noticed that the other side had ended."""
    for state in inspection.states():
        partners = _partners_that_had_ended(inspection, state)
        if partners:
            groups = rank_groups(_with_victims(inspection, FirstFailure(ranks=tuple(partners), at_ns=0)))
            return explained_finding(FindingKind.PEER_GONE, explain_end(inspection, partners, [state.rank]), groups)
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
    first = first_failure(inspection)
    states = [inspection.state(rank) for rank in sorted(gone)]
    at_fault = [state.rank for state in states if state is not None and not is_victim(state, first)]
    explanations = explain_end(inspection, at_fault or sorted(gone), sorted(stuck))
    return explained_finding(FindingKind.PEER_GONE, explanations, rank_groups(_with_victims(inspection, first)))


# after the job


def find_first_failure(inspection: Inspection) -> Finding | None:
    """After the job has ended: find ranks that failed by themselves, while others were ended because of it."""
    if inspection.was_aborted():
        return None
    first = first_failure(inspection)
    if first is None or len(first.ranks) == len(inspection.snapshot.ranks):
        return None  # all failed alike, or somebody has ended the whole job
    states = [state for state in inspection.states() if state.rank in first.ranks]
    if any(state.end is not None and state.end.kind is EndKind.EXITED for state in states):
        return None  # it exited with a code of its own choice: that is the job's own end
    others = [state.end for state in inspection.states() if state.rank not in first.ranks and state.end is not None]
    if all(end.kind is EndKind.EXITED for end in others):
        return None  # nobody was ended because of it
    explanations = explain_end(inspection, first.ranks, [], is_first=first.is_certain)
    return explained_finding(FindingKind.PEER_GONE, explanations, rank_groups(_with_victims(inspection, first)))
