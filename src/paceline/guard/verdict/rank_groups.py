"""What each rank does, and which ranks do the same: the groups of a finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.guard.verdict.finding import RankGroup
from paceline.guard.verdict.snapshot import Call, EndKind, RankState, Snapshot, Waiting
from paceline.guard.verdict.wording import call_detail, call_name

_MAX_GROUPS = 200


def rank_groups(snapshot: Snapshot, calls: Mapping[int, Call] | None = None) -> tuple[RankGroup, ...]:
    """Group ranks by what they do; `calls` says what a rank is shown with, instead of where it waits."""
    calls = calls or {}
    groups: dict[object, list[int]] = {}
    for rank, state in enumerate(snapshot.ranks):
        groups.setdefault(_likeness(state, calls.get(rank)), []).append(rank)
    if len(groups) > _MAX_GROUPS:  # thousands of ranks with a peer of their own each: leave the peers out
        groups = {}
        for rank, state in enumerate(snapshot.ranks):
            likeness = _likeness(state, calls.get(rank))
            groups.setdefault(likeness[:5], []).append(rank)
    made = []
    for ranks in groups.values():
        situation = _situation(snapshot, snapshot.state(ranks[0]), calls.get(ranks[0]))
        more = f"; {len(ranks)} ranks, each with its own peer" if len(groups) > _MAX_GROUPS else ""
        made.append(replace(situation, ranks=tuple(ranks), detail=f"{situation.detail}{more}"))
    return tuple(sorted(made, key=lambda group: (-len(group.ranks), group.ranks)))


def _likeness(state: RankState | None, shown: Call | None) -> tuple[object, ...]:
    """Return what is equal for ranks in the same situation, without putting it into words."""
    if state is None:
        return (None,)
    waiting = next((waiting for waiting in state.threads if waiting is not None), None)
    call = shown or (waiting.call if waiting is not None else None)
    if state.end is not None and shown is None:
        return (state.end.kind, state.end.site, state.end.detail)
    if call is None:
        last = state.history[-1] if state.history else None
        return ("runs", last.operation if last else None, last.site if last else None)
    requests = () if waiting is None or shown is not None else tuple(map(_likeness_of_call, waiting.requests))
    stopped = state.stop is not None
    inside = stopped or (waiting is not None and _is_waited_for(waiting, call))
    ended = state.end.detail if state.end is not None else None
    return (ended, inside, stopped or state.waits, *_likeness_of_call(call), requests)


def _is_waited_for(waiting: Waiting, call: Call) -> bool:
    return call.number == waiting.call.number or any(call.number == request.number for request in waiting.requests)


def _likeness_of_call(call: Call) -> tuple[object, ...]:
    return (
        call.operation, (call.site, call.communicator, call.sequence if call.is_collective else 0), call.root, call.tag,
        call.dtype, call.count, call.num_bytes, call.reduction, call.source, call.source_tag,
    )  # fmt: skip


def _situation(snapshot: Snapshot, state: RankState | None, shown: Call | None) -> RankGroup:
    """Say what a rank does, without saying which rank it is."""
    if state is None:
        return RankGroup(ranks=(), state="running", detail="has not joined the job yet")
    if state.end is not None:
        name = "exited" if state.end.kind is EndKind.ABORTED else state.end.kind.value
        if shown is None:
            return RankGroup(ranks=(), state=name, site=state.end.site or None, detail=state.end.detail)
        return _in_call(snapshot, name, shown, state.end.detail)
    name = "blocked" if state.waits or state.stop is not None else "running"
    waiting = next((waiting for waiting in state.threads if waiting is not None), None)
    if shown is not None:
        made = _in_call(snapshot, name, shown)
        inside = waiting is not None and _is_waited_for(waiting, shown)
        return replace(made, has_returned=not inside and state.stop is None)
    if waiting is None:
        last = state.history[-1] if state.history else None
        after = f"last call {call_name(last)} at {last.site}" if last is not None else ""
        return RankGroup(ranks=(), state=name, detail=after)
    if waiting.requests:
        detail = "waits for " + _requests_text(snapshot, waiting.requests, waiting.any_of)
        return RankGroup(ranks=(), state=name, call=call_name(waiting.call), site=waiting.call.site, detail=detail)
    return _in_call(snapshot, name, waiting.call)


def _in_call(snapshot: Snapshot, state: str, call: Call, more: str = "") -> RankGroup:
    group = snapshot.groups.get(call.communicator)
    return RankGroup(
        ranks=(),
        state=state,
        call=call_name(call),
        communicator=group.name if group is not None else None,
        sequence=call.sequence if call.is_collective else None,
        site=call.site,
        count=call.count if call.count >= 0 else None,
        dtype=call.dtype if call.dtype != "any" else None,
        detail="; ".join(part for part in (call_detail(snapshot, call), more) if part),
    )


def _requests_text(snapshot: Snapshot, requests: Sequence[Call], any_of: bool) -> str:
    texts = []
    for call in requests[:4]:
        detail = call_detail(snapshot, call)
        texts.append(f"{call_name(call)} {detail} (posted at {call.site})".replace("  ", " "))
    more = f" and {len(requests) - 4} more" if len(requests) > 4 else ""
    return (" or " if any_of else " and ").join(texts) + more
