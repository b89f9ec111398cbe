"""The rule of ended ranks: a rank that others need has exited, raised, been killed, or freed the communicator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import replace

from paceline.guard.shared_memory.layout import ANY, ENQUEUED, NONBLOCKING
from paceline.guard.shared_memory.operations import Family, Needs
from paceline.guard.verdict.causes.explain_end import explain_end, explain_late
from paceline.guard.verdict.finding import Finding, FindingKind, explained_finding
from paceline.guard.verdict.first_difference import find_first_difference, shown_difference
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.order_of_ends import (
    FirstFailure,
    first_failure,
    is_victim,
    may_be_because_of_others,
    may_be_ended_by_launcher,
    open_call,
)
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, End, EndKind, Position, RankState, is_window_or_file
from paceline.guard.verdict.waits.waited_for import directly_needed

# collectives


def find_peer_gone(inspection: Inspection, stuck: frozenset[int] = frozenset()) -> Finding | None:
    """Find ranks that ended, or freed a communicator, without a collective that others have begun.

    Whether anybody waits in a call that may return early is certain only of ranks that are known to be stuck.
    """
    first = first_failure(inspection)
    for identity, known in inspection.snapshot.communicators.items():
        gone = [rank for rank in known.ranks if _has_left(inspection.state(rank), identity)]
        if not gone:
            continue
        completed = {rank: _completed(inspection, rank, identity, is_stuck=bool(stuck)) for rank in gone}
        position = Position(identity, min(completed.values()) + 1)
        missing = frozenset(rank for rank in gone if completed[rank] < position.sequence)
        waiting = [
            rank
            for rank in known.ranks
            if _needs_others(inspection, rank, position, stuck) and _needs_one_of(inspection, rank, position, missing)
        ]
        if _is_abandoned(inspection, missing, position):  # others may have had their part of it
            waiting = [rank for rank in waiting if rank in stuck]
        if waiting and missing:
            return unless_of_unseen(
                inspection, _collective_finding(inspection, sorted(missing), waiting, position, first)
            )
    return None


def unless_of_unseen(inspection: Inspection, finding: Finding) -> Finding | None:
    """Return a finding, unless ranks are out of sight of which one may be why those have ended that it names."""
    if not inspection.out_of_sight():
        return finding
    states = [inspection.state(rank) for rank in finding.ranks]
    return None if any(state is not None and may_be_because_of_others(state) for state in states) else finding


def _has_left(state: RankState | None, communicator: str) -> bool:
    if state is None or state.begun(communicator) is None:  # where it was is not known: it may have made every call
        return False
    return state.end is not None or communicator in state.freed


def _completed(inspection: Inspection, rank: int, communicator: str, *, is_stuck: bool) -> int:
    """Return how many collectives a rank has been through: one that it died inside, or of, does not count.

    Nor does one that it had only started, if others are stuck: its part may have been done before it ended.
    """
    begun, state = inspection.begun(rank, communicator), inspection.state(rank)
    if state is None or state.end is None:
        return begun
    abandoned = [call for call in state.abandoned if call.is_collective and call.communicator == communicator]
    if abandoned and is_stuck:
        return min(call.sequence for call in abandoned) - 1
    calls = (open_call(state), _refused_call(state, state.end))
    is_last = any(call.is_collective and call.position == Position(communicator, begun) for call in calls if call)
    return begun - 1 if is_last else begun


def _is_abandoned(inspection: Inspection, missing: Iterable[int], position: Position) -> bool:
    """Say whether all that others lack of ranks is the end of a call that these had started."""
    states = [inspection.state(rank) for rank in missing]
    return bool(states) and all(
        state is not None and any(call.is_collective and call.position == position for call in state.abandoned)
        for state in states
    )


def _refused_call(state: RankState, end: End) -> Call | None:
    """Return the call that a rank raised in for a reason of its own, such as an argument that was refused."""
    of_its_own = end.kind is EndKind.RAISED and not end.by_peer and not end.timed_out
    return state.call(end.failed_call) if of_its_own else None


def _needs_one_of(inspection: Inspection, rank: int, position: Position, missing: Collection[int]) -> bool:
    """Say whether one of the missing ranks matters to a rank: in a neighbourhood collective only neighbours do."""
    call, state = inspection.call_at(rank, position), inspection.state(rank)
    if call is None or state is None or call.traits.needs is not Needs.NEIGHBOURS:
        return True
    known = inspection.communicator(position.communicator)
    members = state.neighbours.get(position.communicator, ()) if known is not None else ()
    return known is not None and any(known.rank_of(member) in missing for member in members)


def _needs_others(inspection: Inspection, rank: int, position: Position, stuck: frozenset[int]) -> bool:
    """Say whether a rank has begun a collective, and no error that it handled has told it to do without."""
    state = inspection.state(rank)
    if state is None or inspection.begun(rank, position.communicator) < position.sequence:
        return False
    call = inspection.call_at(rank, position)
    if state.end is not None:  # it waits for nobody, but its library may have failed because others had ended
        return call is not None and (_failed_in(state.end, call) or _exits_without(state.end, call))
    if call is None:  # it is long past that position; on a window or a file, it needed nobody to get there
        return not is_window_or_file(position.communicator)
    if _has_met_all(call) or (call.traits.may_return_early and (call.left_ns or rank not in stuck)):
        return False
    return not call.has_own_timeout and not call.failed and not _may_do_without(state, call)


def _failed_in(end: End, call: Call) -> bool:
    """Say whether a rank died of this call because another had ended.

    The wait for a call that a library has only started (DDP's for its gradients) is not recorded, nor is its failure.
    """
    in_call = end.failed_call == call.number or (end.failed_call is None and bool(call.flags & NONBLOCKING))
    return end.by_peer and in_call


def _has_met_all(call: Call) -> bool:
    """Say whether a call is over that nobody leaves before all have come: then nobody was missing."""
    is_over = call.left_ns != 0 and not call.failed and not call.flags & (NONBLOCKING | ENQUEUED)
    return is_over and call.traits.needs is Needs.ALL and call.num_bytes != 0


def _exits_without(end: End, call: Call) -> bool:
    """Say whether a rank exits though a call that it has enqueued, and waited for, has not completed."""
    return end.kind is EndKind.EXITED and call.flags & (ENQUEUED | NONBLOCKING) == ENQUEUED and not call.failed


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
    shown = {*waiting, *(state.rank for state in inspection.states() if _was_ended_at(state, position))}
    calls = {rank: call for rank, call in inspection.calls_at(position).items() if rank in shown}
    explanations = explain_end(inspection, at_fault or missing, waiting, position)
    return explained_finding(
        FindingKind.PEER_GONE, explanations, rank_groups(with_victims(inspection, first), calls),
        first_difference=shown_difference(inspection, find_first_difference(inspection, position)),
    )  # fmt: skip


def _was_ended_at(state: RankState, position: Position) -> bool:
    """Say whether a rank was ended while it was inside a collective."""
    call = open_call(state) if state.end is not None else None
    return call is not None and call.is_collective and call.position == position


def with_victims(inspection: Inspection, first: FirstFailure | None) -> Inspection:
    """Shorten what is said of ranks that ended because of others: what their library said is about the others."""

    def shortened(state: RankState | None) -> RankState | None:
        if state is None or state.end is None or not is_victim(state, first):
            return state
        return replace(state, end=replace(state.end, detail="afterwards"))

    snapshot = inspection.snapshot
    return replace(inspection, snapshot=replace(snapshot, ranks=[shortened(state) for state in snapshot.ranks]))


def find_late(inspection: Inspection) -> Finding | None:
    """Find a collective whose own time limit has run out in a rank, and who had not come to it."""
    if inspection.out_of_sight():
        return None  # those may have come, and those who had not may have waited for them
    for state in inspection.states():
        call = state.call(state.end.failed_call) if state.end is not None and state.end.timed_out else None
        if call is None or not call.is_collective:
            continue
        late = sorted(inspection.missing_at(call.position))
        if late and len(late) < len(inspection.snapshot.ranks):
            first = FirstFailure(ranks=(state.rank,), at_ns=state.end.at_ns if state.end is not None else 0)
            explanation = explain_late(inspection, late, state.rank, call)
            return explained_finding(
                FindingKind.DEADLOCK, explanation, rank_groups(with_victims(inspection, first), {state.rank: call})
            )
    return None


def find_exit_before_kill(inspection: Inspection) -> Finding | None:
    """Find ranks that exited without a collective in which others were, until the launcher killed those for it.

    Or without the epoch of a window for which others waited.
    """
    exits = {state.rank for state in inspection.states() if state.end is not None and state.end.kind is EndKind.EXITED}
    if not exits or inspection.out_of_sight():
        return None  # or: the launcher may have killed for one of those that are not seen
    for state in inspection.states():
        call = open_call(state)
        if state.end is None or not may_be_ended_by_launcher(state.end) or call is None:
            continue
        if not call.is_collective and not (call.family is Family.EPOCH and call.traits.needs is Needs.ALL):
            continue
        missing = [inspection.state(rank) for rank in sorted(directly_needed(inspection, state, call) & exits)]
        exited = [other.rank for other in missing if other is not None and _exited_before(other, state.end)]
        if exited:
            first = FirstFailure(ranks=tuple(exited), at_ns=0)
            position = call.position if call.is_collective else None
            differing = find_first_difference(inspection, position) if position is not None else None
            return explained_finding(
                FindingKind.PEER_GONE, explain_end(inspection, exited, [state.rank], position),
                rank_groups(with_victims(inspection, first), {state.rank: call}),
                first_difference=shown_difference(inspection, differing),
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
            groups = rank_groups(with_victims(inspection, FirstFailure(ranks=tuple(partners), at_ns=0)))
            explanations = explain_end(inspection, partners, [state.rank])
            return unless_of_unseen(inspection, explained_finding(FindingKind.PEER_GONE, explanations, groups))
    return None


def _partners_that_had_ended(inspection: Inspection, state: RankState) -> list[int]:
    """Return the ranks that had ended before a message with them failed, and this rank with it."""
    end = state.end
    call = state.call(end.failed_call) if end is not None and end.by_peer else None
    if end is None or call is None or call.is_collective:
        return []
    partners = [inspection.state(rank) for rank in sorted(_partners(inspection, state, call))]
    return [other.rank for other in partners if other is not None and _had_left(other, call, end)]


def _had_left(state: RankState, call: Call, end: End) -> bool:
    """Say whether a rank ended before another died of a call, or freed the communicator on the way to its end."""
    has_freed = call.communicator in state.freed and state.end is not None and state.end.kind is EndKind.EXITED
    return state.end is not None and not state.end.by_peer and (has_freed or state.end.at_ns <= end.at_ns)


def _partners(inspection: Inspection, state: RankState, call: Call) -> Set[int]:
    """Return the ranks that a call certainly needs: of a receive from anybody all, but only once all have ended."""
    needed = directly_needed(inspection, state, call)
    if call.is_collective or ANY not in call.peers or all(map(inspection.has_ended, needed)):
        return needed
    return set()


def find_gone_partner(inspection: Inspection, stuck: frozenset[int]) -> Finding | None:
    """Find ended ranks that stuck ranks exchange messages with, or wait for in a collective."""
    gone: set[int] = set()
    need_them: set[int] = set()
    all_ended = inspection.ended()
    for rank in stuck if all_ended else ():
        state = inspection.state(rank)
        assert state is not None
        for waiting in state.waiting:
            for call in waiting.awaited:
                ended = _partners(inspection, state, call) & all_ended
                gone |= ended
                need_them |= {rank} if ended else set()
    if not gone:
        return None
    first = first_failure(inspection)
    states = [inspection.state(rank) for rank in sorted(gone)]
    at_fault = [state.rank for state in states if state is not None and not is_victim(state, first)]
    explanations = explain_end(inspection, at_fault or sorted(gone), sorted(need_them))
    groups = rank_groups(with_victims(inspection, first))
    return unless_of_unseen(inspection, explained_finding(FindingKind.PEER_GONE, explanations, groups))
