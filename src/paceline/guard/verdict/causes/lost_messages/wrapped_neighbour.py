"""A neighbour computed by modulo where ranks are in a line: the first takes the last for the rank before it.

All other ranks name the rank at the same distance from their own. That of this rank lies beyond the end, and it names
the one that is there in a ring, which knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import Line, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Membership
from paceline.guard.verdict.waits.waited_for import has_arrived
from paceline.guard.verdict.wording import call_name, name_rank

_SENDING = (Family.SEND, Family.EXCHANGE)
_RECEIVING = (Family.RECEIVE, Family.EXCHANGE, Family.PROBE)
_FEWEST = 2  # other ranks that must name the rank at one distance, before that is taken for a rule


def explain_wrapped_neighbour(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain a message across the ends of a line of ranks, of which one end alone knows; nothing if there is none."""
    by_line: dict[tuple[str, Line, bool], dict[int, set[int]]] = {}
    for rank, call in sorted(calls.items()):
        known, state = inspection.communicator(call.communicator), inspection.state(rank)
        if known is None or known.num_first or state is None or call.family not in (*_SENDING, *_RECEIVING):
            continue
        receives = call.family in _RECEIVING and not has_arrived(inspection, state, call)
        if not receives and call.family not in _SENDING:
            continue
        partner = _partner(call, receives=receives)
        member, other = known.member(rank), known.rank_of(partner)
        if other is None or 2 * abs(partner - member) < len(known.ranks):
            continue
        if other in calls and not calls[other].is_collective:
            continue  # it may still come to that: all wait for each other
        key = (call.communicator, line_of(call), receives)
        if key not in by_line:
            by_line[key] = _distances(inspection, known, call, receives=receives)
        distance = _usual_distance(by_line[key], rank)
        if distance is None or abs(partner - member - distance) != len(known.ranks):
            continue
        if not _meets(inspection, other, call.communicator, member, receives=receives):
            return [_explain(inspection, rank, other, call, distance, receives=receives)]
    return []


def _partner(call: Call, *, receives: bool) -> int:
    return call.incoming.source if receives else call.peer


def _distances(inspection: Inspection, known: Membership, call: Call, *, receives: bool) -> dict[int, set[int]]:
    """Return how far from their own the ranks are that members name in the line of a call: distance -> who does."""
    distances: dict[int, set[int]] = {}
    line = line_of(call)
    for member, rank in enumerate(known.ranks):
        state = inspection.state(rank)
        for past in state.history if state is not None else ():
            if past.communicator == call.communicator and line_of(past) == line:
                partner = _partner(past, receives=receives)
                if known.rank_of(partner) is not None:  # else it names nobody, or anybody
                    distances.setdefault(partner - member, set()).add(rank)
    return distances


def _usual_distance(distances: Mapping[int, set[int]], rank: int) -> int | None:
    """Return the distance that all others have; None if they do not agree, or are too few to tell."""
    usual = None
    for distance, ranks in distances.items():
        num_others = len(ranks) - (rank in ranks)
        if num_others and (usual is not None or num_others < _FEWEST):
            return None
        usual = distance if num_others else usual
    return usual


def _meets(inspection: Inspection, rank: int, communicator: str, member: int, *, receives: bool) -> bool:
    """Say whether a rank has ever sent to a member, or received from it, or may have before what is remembered."""
    state = inspection.state(rank)
    if state is None or (state.history and state.history[0].number):
        return True
    for past in state.history:
        if past.communicator == communicator:
            if receives and past.family in _SENDING and past.peer == member:
                return True
            if not receives and past.family in _RECEIVING and past.incoming.takes(member, past.incoming.tag):
                return True
    return False


def _explain(
    inspection: Inspection, rank: int, other: int, call: Call, distance: int, *, receives: bool
) -> Explanation:
    place, who, whom = f"{call_name(call)} at {call.site}", name_rank(rank), name_rank(other)
    far = "" if abs(distance) == 1 else f"{abs(distance)} "
    nearby = f"the rank {far}{'before' if distance < 0 else 'after'} their own"
    answers, back = f"{whom} sends nothing to {who}", f"let {whom} send to {who}"
    if not receives:
        answers, back = f"{whom} receives nothing from {who}", f"let {whom} receive from {who}"
    nobody = "" if call.operation.startswith("torch.") else " (Shift gives MPI.PROC_NULL at an open edge)"
    return Explanation(
        ranks=tuple(sorted((rank, other))),
        summary=f"{who} {'receives from' if receives else 'sends to'} {whom} in {place} as in a ring, where the other "
        f"ranks name {nearby}; but {answers}{_no_neighbour(inspection, call, rank, other)}",
        cause=Cause.RECEIVE_WITHOUT_SEND if receives else Cause.SEND_WITHOUT_RECEIVE,
        advice=f"if ranks are in a line, let {who} do without the {place}{nobody}; if they are in a ring, {back}",
    )


def _no_neighbour(inspection: Inspection, call: Call, rank: int, other: int) -> str:
    """Say that two ranks are no neighbours in the topology of their communicator, if it has one."""
    state, known = inspection.state(rank), inspection.communicator(call.communicator)
    members = state.neighbours.get(call.communicator) if state is not None else None
    if members is None or known is None or known.member(other) in members:
        return ""
    return f", and they are no neighbours on {inspection.name(call.communicator)}"
