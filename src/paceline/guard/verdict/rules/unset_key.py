"""The rule of keys: a rank waits for a key of a store, and no other rank is left that could set it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingKind, explained_finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, RankState
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks
from paceline.guard.verdict.wording import call_name, name_ranks, sites_text, verb


def find_unset_key(inspection: Inspection, stuck: frozenset[int]) -> Finding | None:
    """Find stuck ranks that wait for a key, if they are why the others are stuck."""
    calls = {rank: call for rank in sorted(stuck) if (call := _store_call(inspection.state(rank))) is not None}
    if not calls or _are_stuck_without(inspection, calls.keys()):
        return None
    ranks = tuple(calls)
    others = [state for state in inspection.states() if state.rank not in calls]
    gone = all(state.end is not None for state in others)
    instead = "the other ranks have ended" if gone else f"the other ranks wait for {verb(ranks, 'it', 'them')}"
    first = calls[ranks[0]]
    explanation = Explanation(
        ranks=ranks,
        summary=f"{name_ranks(ranks)} {verb(ranks, 'waits', 'wait')} in {call_name(first)} at "
        f"{sites_text(calls.values())} for a key that nobody has set, and {instead}",
        cause=Cause.RECEIVE_WITHOUT_SEND,
        advice=f"let a rank set the key before it makes its next collective or ends: look for another spelling of the "
        f"key, another prefix, or a condition around the set that belongs to the {call_name(first)} at {first.site}",
    )
    kind = FindingKind.PEER_GONE if gone else FindingKind.DEADLOCK
    return explained_finding(kind, explanation, rank_groups(inspection))


def _store_call(state: RankState | None) -> Call | None:
    """Return the call in which a rank waits for a key."""
    calls = (waiting.call for waiting in state.waiting) if state is not None else ()
    return next((call for call in calls if call.family is Family.STORE), None)


def _are_stuck_without(inspection: Inspection, ranks: Collection[int]) -> bool:
    """Say whether others would be stuck even if these ranks went on: then that is what is to be told."""
    snapshot = inspection.snapshot
    freed = [
        replace(state, threads=(None,)) if state is not None and state.rank in ranks else state
        for state in snapshot.ranks
    ]
    return bool(stuck_ranks(replace(snapshot, ranks=freed), cautious=False))
