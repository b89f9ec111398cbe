"""The rule of a standstill: every live rank stands in a call of MPI, so nobody is left who could release another.

Records alone do not show it, because some of the calls are made by compiled libraries and are not recorded. Native
stacks show that a rank stands in such a call, but not what it waits for: any other rank may release it. So there is a
finding only if none can. The caller sees to it that nothing has moved for long enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.errors import group_ranks
from paceline.guard.verdict.causes.explain_end import explain_end
from paceline.guard.verdict.compiled_call import CompiledCall
from paceline.guard.verdict.finding import (
    Cause,
    Explanation,
    Finding,
    FindingKind,
    GroupState,
    RankGroup,
    explained_finding,
)
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.order_of_ends import first_failure, is_failure, is_victim
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.rules.mismatch import minority
from paceline.guard.verdict.snapshot import RankState
from paceline.guard.verdict.wording import call_name, name_ranks, verb

_Calls = Mapping[int, CompiledCall]
_NOT_SEEN = "what it waits for cannot be seen"


def find_standstill(inspection: Inspection, stands: _Calls) -> Finding | None:
    """Return a finding if all live ranks wait in calls that only another rank could end.

    Args:
        inspection: The job.
        stands: The call that each live rank stands in, recorded or not, as its native stack shows it.
    """
    states = list(inspection.snapshot.ranks)
    if len(states) < 2 or inspection.was_aborted():
        return None
    live = [state for state in states if state is None or state.end is None]
    if not live or not all(state is not None and _is_held(state, stands) for state in live):
        return None
    unrecorded = {state.rank: stands[state.rank] for state in live if state is not None and not state.waits}
    recorded = {state.rank: state for state in live if state is not None and state.waits}
    gone = [state for state in states if state is not None and state.end is not None]
    groups = (*_groups(inspection, unrecorded), *_recorded_groups(inspection, unrecorded))
    sides = _sides(inspection, unrecorded, recorded)
    if gone and (len(sides) == 1 or any(is_failure(state) for state in gone)):
        return explained_finding(
            FindingKind.PEER_GONE, _explain_gone(inspection, gone, sides, unrecorded, recorded), groups
        )
    ranks = [ranks for ranks, _ in sides]
    explanation = Explanation(
        ranks=minority(ranks) if len(ranks) > 1 else tuple(sorted({*unrecorded, *recorded})),
        summary=f"{_text(sides)}; no rank is left that could release another{_what_is_unknown(unrecorded)}",
        cause=Cause.UNSEEN_CALL,
        advice=_advice(unrecorded),
    )
    return explained_finding(FindingKind.DEADLOCK, explanation, groups)


def _is_held(state: RankState, stands: _Calls) -> bool:
    """Say whether a rank waits for others, and not for a time limit of its own."""
    call = stands.get(state.rank)
    if call is None or not call.waits or state.stop is not None or not state.threads_known:
        return False
    return not any(waiting.call.has_own_timeout for waiting in state.waiting)


def _sides(
    inspection: Inspection, unrecorded: _Calls, recorded: Mapping[int, RankState]
) -> list[tuple[tuple[int, ...], str]]:
    """Return who stands where, in words, the most first."""
    texts = {rank: f"in {call.text}" for rank, call in unrecorded.items()}
    for rank, state in recorded.items():
        call = next(state.waiting).call
        on = f" on {inspection.name(call.communicator)}" if call.is_collective else ""
        texts[rank] = f"in {call_name(call)}{on} at {call.site}"
    return [(ranks, text) for text, ranks in group_ranks(texts)]


def _text(sides: Sequence[tuple[tuple[int, ...], str]]) -> str:
    return ", ".join(f"{name_ranks(ranks)} {verb(ranks, 'stands', 'stand')} {text}" for ranks, text in sides)


def _what_is_unknown(unrecorded: _Calls) -> str:
    if unrecorded:
        return "; for whom a call of a compiled library waits is not recorded"
    return "; by what is recorded every rank has come, so ranks differ in calls that are not recorded"


def _explain_gone(
    inspection: Inspection, gone: Sequence[RankState], sides: Sequence[tuple[tuple[int, ...], str]],
    unrecorded: _Calls, recorded: Mapping[int, RankState],
) -> list[Explanation]:  # fmt: skip
    """Explain ranks that have ended while all others stand."""
    first = first_failure(inspection)
    at_fault = [state.rank for state in gone if not is_victim(state, first)] or [state.rank for state in gone]
    ends = explain_end(inspection, at_fault, sorted({*unrecorded, *recorded}))
    how = ends[0].summary.rpartition("; ")[0]  # without what the others do: here they stand in calls of their own
    summary = f"{how}, while {_text(sides)}; no other rank is left{_what_is_unknown(unrecorded)}"
    return [replace(ends[0], summary=summary, advice=f"{ends[0].advice}; {_advice(unrecorded)}")]


def _advice(unrecorded: _Calls) -> str:
    places = sorted({f"{call.function} at {call.site}" for call in unrecorded.values() if call.site})[:3]
    if places:
        return f"see whether every rank makes the library's calls that lead to {' and '.join(places)}, in one order"
    return "see whether every rank makes the same calls of compiled libraries, in the same order"


def _groups(inspection: Inspection, unrecorded: _Calls) -> list[RankGroup]:
    return [
        RankGroup(
            ranks=ranks, state=GroupState.BLOCKED, call=call.function, site=call.site or None,
            detail="; ".join(filter(None, [f"called by {call.library}" if call.library else "", _NOT_SEEN])),
        )
        for call, ranks in group_ranks(dict(unrecorded))
    ]  # fmt: skip


def _recorded_groups(inspection: Inspection, unrecorded: _Calls) -> list[RankGroup]:
    """Return what is known of the other ranks from their records."""
    groups = []
    for group in rank_groups(inspection):
        ranks = tuple(rank for rank in group.ranks if rank not in unrecorded)
        if ranks:
            groups.append(replace(group, ranks=ranks))
    return groups
