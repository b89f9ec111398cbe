"""Whom a rank waits for, directly, and what it waits for first. Who can never move is worked out in stuck_ranks.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Channel, Position, RankState, Snapshot, Waiting

_RECEIVING = (Family.RECEIVE, Family.EXCHANGE)


def directly_needed(inspection: Inspection, state: RankState, call: Call) -> set[int]:
    """Return the ranks that a call needs: members that have not come, or the other side of a message."""
    known = inspection.communicator(call.communicator)
    if known is None:
        return set()
    if call.is_collective:
        return inspection.missing_at(call.position)
    if ANY in call.peers:
        return set(known.ranks) - {state.rank}
    return {rank for peer in call.peers if (rank := known.rank_of(peer)) is not None}


def ranks_waited_for(snapshot: Snapshot) -> frozenset[int]:
    """Return the ranks that run and that waiting ranks need, directly."""
    inspection = Inspection(snapshot)
    needed: set[int] = set()
    seen: set[Position] = set()  # all who wait at one position need the same ranks
    for state in inspection.states():
        for waiting in state.waiting if state.waits else ():
            for call in waiting.requests or (waiting.call,):
                if call.is_collective and call.position in seen:
                    continue
                if call.is_collective:
                    seen.add(call.position)
                needed |= directly_needed(inspection, state, call)
    return frozenset(rank for rank in needed if not _waits_or_ended(snapshot, rank))


def _waits_or_ended(snapshot: Snapshot, rank: int) -> bool:
    state = snapshot.state(rank)
    return state is not None and (state.waits or state.end is not None)


def first_unmet(inspection: Inspection, state: RankState, waiting: Waiting) -> Call:
    """Return what a thread waits for and has not got: the call it is in, or the first request that nothing has met."""
    for call in waiting.requests:
        if call.family in (Family.RECEIVE, Family.PROBE):
            if not _has_arrived(inspection, state, call):
                return call
        elif not call.is_collective or directly_needed(inspection, state, call):
            return call
    return waiting.requests[0] if waiting.requests else waiting.call


def _has_arrived(inspection: Inspection, state: RankState, call: Call) -> bool:
    """Say whether a message that a receive wants is under way to it."""
    known = inspection.communicator(call.communicator)
    if known is None:
        return False
    me = known.member(state.rank)
    for member in range(len(known.ranks)) if call.peer == ANY else (call.peer,):
        rank = known.rank_of(member)
        sender = inspection.state(rank) if rank is not None else None
        tags = tags_in_flight(sender, state, call.communicator, me, member) if sender is not None else ()
        if any(call.tag in (ANY, tag) for tag in tags):
            return True
    return False


def posted_receives(state: RankState | None) -> Iterator[Call]:
    """Return the receives a rank has posted: it waits in one, or one is under way."""
    if state is None:
        return
    for waiting in state.waiting:
        if waiting.call.family in _RECEIVING:
            yield waiting.call
    for call in state.posted:
        if call.family in _RECEIVING:
            yield call


def tags_in_flight(sender: RankState, receiver: RankState, communicator: str, me: int, member: int) -> Iterable[int]:
    """Return the tags of messages sent by `member` to `me` that have not been received."""
    for (name, peer, tag), count in sender.sent.items():
        if name == communicator and peer == me:
            key: Channel = (communicator, member, tag)
            if count > receiver.received.get(key, 0):
                yield tag
