"""Whom calls on windows wait for, other than collectives: partners of an epoch, and ranks that hold a lock."""

from __future__ import annotations

from paceline.guard.shared_memory.layout import ANY, EXCLUSIVE_LOCK
from paceline.guard.verdict.snapshot import Call, RankState, Snapshot


def partners_without_token(snapshot: Snapshot, state: RankState, call: Call) -> list[int]:
    """Return the ranks whose part a call waits for: a Post, or a Complete. Those of which nothing is known are not.

    The n-th Start of an origin meets the n-th Post of each of its targets, the n-th Wait the n-th Complete.
    """
    known = snapshot.communicators.get(call.communicator)
    members = snapshot.new_groups.get(call.members_hash)
    if known is None or members is None or not state.windows_known:
        return []
    me = known.member(state.rank)
    lacking = []
    for member in members:
        rank = known.rank_of(member)
        other = snapshot.state(rank) if rank is not None else None
        if rank is None or other is None or not other.windows_known:
            continue
        taken = state.taken.get((call.communicator, member, call.tag), 0)
        if other.given.get((call.communicator, me, call.tag), 0) <= taken:
            lacking.append(rank)
    return lacking


def lock_targets(snapshot: Snapshot, call: Call) -> list[int]:
    """Return the ranks whose lock a call needs."""
    known = snapshot.communicators.get(call.communicator)
    if known is None:
        return []
    if call.peer == ANY:
        return list(known.ranks)
    target = known.rank_of(call.peer)
    return [] if target is None else [target]


def lock_holders(snapshot: Snapshot, state: RankState, call: Call) -> list[int]:
    """Return the other ranks that hold a lock that a call has to wait for."""
    known = snapshot.communicators.get(call.communicator)
    if known is None or not state.windows_known:
        return []
    others = (snapshot.state(rank) for rank in known.ranks if rank != state.rank)
    return [other.rank for other in others if other is not None and _keeps_out(other, call)]


def _keeps_out(other: RankState, call: Call) -> bool:
    """Say whether a rank holds a lock that does not go together with the one that a call needs."""
    return any(
        count > 0
        and window == call.communicator
        and (ANY in (target, call.peer) or target == call.peer)
        and EXCLUSIVE_LOCK in (kind, call.tag)
        for (window, target, kind), count in other.held.items()
    )
