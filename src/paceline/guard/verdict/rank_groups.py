"""Describes what each rank does, and puts ranks that do the same together: the groups of a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.errors import group_ranks
from paceline.guard.shared_memory.layout import ENQUEUED
from paceline.guard.verdict.finding import GroupState, RankGroup
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, EndKind, RankState, Waiting
from paceline.guard.verdict.wording import call_detail, call_name

_MAX_GROUPS = 200
_SAME_CALL = 5  # entries of a situation's key without its arguments: what ranks do, and where
_STATE_OF_END = {
    EndKind.EXITED: GroupState.EXITED,
    EndKind.RAISED: GroupState.RAISED,
    EndKind.KILLED: GroupState.KILLED,
    EndKind.ABORTED: GroupState.EXITED,
}


def rank_groups(inspection: Inspection, calls: Mapping[int, Call] | None = None) -> tuple[RankGroup, ...]:
    """Group ranks by what they do; `calls` says what a rank is shown with, instead of where it waits."""
    calls = calls or {}
    keys = {rank: _situation_key(state, calls.get(rank)) for rank, state in enumerate(inspection.snapshot.ranks)}
    unseen = inspection.out_of_sight()
    keys |= dict.fromkeys(unseen, (None, "out of sight"))
    groups = group_ranks(keys)
    note = ""
    if len(groups) > _MAX_GROUPS:  # thousands of ranks with a peer of their own each: leave the peers out
        groups = group_ranks({rank: key[:_SAME_CALL] for rank, key in keys.items()})
        note = "; each rank with its own peer"
    situations = []
    for _, ranks in groups:
        situation = _situation(inspection, inspection.state(ranks[0]), calls.get(ranks[0]))
        if ranks[0] in unseen:
            situation = replace(situation, detail="not seen from here")
        detail = f"{situation.detail}{note}" if len(ranks) > 1 else situation.detail
        situations.append(replace(situation, ranks=ranks, detail=detail))
    return tuple(situations)


def _situation_key(state: RankState | None, shown: Call | None) -> tuple[object, ...]:
    """Return what is equal for ranks in the same situation, without putting it into words."""
    if state is None:
        return (None,)
    waiting = next(state.waiting, None)
    call = shown or (waiting.call if waiting is not None else None)
    if state.end is not None and shown is None:
        return (state.end.kind, state.end.site, state.end.detail)
    if call is None:
        last = state.history[-1] if state.history else None
        return ("runs", last.operation if last else None, last.site if last else None, state.finalized_at)
    requests = () if waiting is None or shown is not None else tuple(map(_call_key, waiting.requests))
    stopped = state.stop is not None
    inside = stopped or (waiting is not None and _is_waited_for(waiting, call))
    ended = state.end.detail if state.end is not None else None
    return (ended, inside, stopped or state.waits, *_call_key(call), requests)


def _is_waited_for(waiting: Waiting, call: Call) -> bool:
    return call.number == waiting.call.number or any(call.number == request.number for request in waiting.requests)


def _call_key(call: Call) -> tuple[object, ...]:
    return (
        call.operation, (call.site, call.communicator, call.sequence), call.root, call.peer, call.tag, call.dtype,
        call.count, call.num_bytes, call.members_hash, call.reduction, call.source, call.source_tag,
    )  # fmt: skip


def _situation(inspection: Inspection, state: RankState | None, shown: Call | None) -> RankGroup:
    """Describe what a rank does, without naming the rank."""
    if state is None:
        return RankGroup(ranks=(), state=GroupState.RUNNING, detail="has not joined the job yet")
    if state.end is not None:
        name = _STATE_OF_END[state.end.kind]
        if shown is None:
            return RankGroup(ranks=(), state=name, site=state.end.site or None, detail=state.end.detail)
        return _in_call(inspection, name, shown, state.end.detail)
    name = GroupState.BLOCKED if state.waits or state.stop is not None else GroupState.RUNNING
    waiting = next(state.waiting, None)
    if shown is not None:
        has_returned = state.stop is None and not (waiting is not None and _is_waited_for(waiting, shown))
        more = "enqueued" if has_returned and shown.flags & ENQUEUED else ""
        return replace(_in_call(inspection, name, shown, more), has_returned=has_returned)
    if waiting is None:
        last = state.history[-1] if state.history else None
        after = f"last call {call_name(last)} at {last.site}" if last is not None else ""
        if state.finalized_at:
            return RankGroup(ranks=(), state=name, site=state.finalized_at, detail="has called MPI.Finalize")
        return RankGroup(ranks=(), state=name, detail=after)
    if waiting.requests:
        detail = "waits for " + _requests_text(inspection, waiting.requests, waiting.any_of)
        return RankGroup(ranks=(), state=name, call=call_name(waiting.call), site=waiting.call.site, detail=detail)
    return _in_call(inspection, name, waiting.call)


def _in_call(inspection: Inspection, state: GroupState, call: Call, more: str = "") -> RankGroup:
    known = inspection.communicator(call.communicator)
    return RankGroup(
        ranks=(),
        state=state,
        call=call_name(call),
        communicator=inspection.name(call.communicator) if known is not None else None,
        sequence=call.sequence or None,
        site=call.site,
        count=call.count if call.count >= 0 else None,
        dtype=call.dtype if call.dtype != "any" else None,
        detail="; ".join(part for part in (call_detail(inspection, call), more) if part),
    )


def _requests_text(inspection: Inspection, requests: Sequence[Call], any_of: bool) -> str:
    texts = []
    for call in requests[:4]:
        detail = call_detail(inspection, call)
        if len(requests) > 1 and call.is_collective and not detail:  # else two of them may read the same
            detail = f"on {inspection.name(call.communicator)}"
        texts.append(f"{call_name(call)} {detail} (posted at {call.site})".replace("  ", " "))
    more = f" and {len(requests) - 4} more" if len(requests) > 4 else ""
    return (" or " if any_of else " and ").join(texts) + more
