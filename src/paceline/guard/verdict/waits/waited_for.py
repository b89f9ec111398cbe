"""Whom a rank waits for, directly, and what it waits for first. Who can never move is worked out in stuck_ranks.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family, Needs
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Channel, EndKind, Position, RankState, Snapshot, Waiting
from paceline.guard.verdict.waits.window_waits import lock_holders, lock_targets, partners_without_token

_RECEIVING = (Family.RECEIVE, Family.EXCHANGE)


def directly_needed(inspection: Inspection, state: RankState, call: Call) -> Set[int]:
    """Return the ranks that a call needs: members that have not come, or the other side of a message."""
    known = inspection.communicator(call.communicator)
    if known is None:
        return set()
    if call.is_collective:
        missing = inspection.missing_at(call.position)
        if call.traits.needs is not Needs.NEIGHBOURS:
            return missing
        neighbours = {known.rank_of(member) for member in state.neighbours.get(call.communicator, ())}
        return {rank for rank in missing if rank in neighbours}
    if call.family is Family.EPOCH:
        return set(partners_without_token(inspection.snapshot, state, call))
    if call.family is Family.LOCK:
        holders = lock_holders(inspection.snapshot, state, call)
        return set(holders or lock_targets(inspection.snapshot, call)) - {state.rank}
    if ANY in call.peers:
        return set(known.other_side(state.rank)) - {state.rank}
    return {rank for peer in call.peers if (rank := known.rank_of(peer)) is not None}


def ranks_in_a_circle(inspection: Inspection, calls: Mapping[int, Call]) -> dict[int, Call]:
    """Return ranks in these calls for which others of them wait, in turn; all, if one of them may need anybody."""
    if any(ANY in call.peers for call in calls.values() if not call.is_collective):
        return dict(calls)
    needed = {
        rank: directly_needed(inspection, state, call) & calls.keys()
        for rank, call in calls.items()
        if (state := inspection.state(rank)) is not None
    }
    num_waiting = Counter(other for others in needed.values() for other in others)
    behind = [rank for rank in needed if not num_waiting[rank]]  # nobody waits for them
    circle = dict(calls)
    while behind:
        rank = behind.pop()
        del circle[rank]
        num_waiting.subtract(needed[rank])
        behind += [other for other in needed[rank] if not num_waiting[other]]
    return circle


def ranks_waited_for(snapshot: Snapshot) -> frozenset[int]:
    """Return the ranks that run and that waiting ranks need, directly."""
    inspection = Inspection(snapshot)
    calls = (
        (state, call)
        for state in inspection.states()
        for waiting in (state.waiting if state.waits else ())
        for call in waiting.requests or (waiting.call,)
    )
    return frozenset(rank for rank in needed_by_any(inspection, calls) if not _waits_or_ended(snapshot, rank))


def needed_by_any(inspection: Inspection, calls: Iterable[tuple[RankState, Call]]) -> set[int]:
    """Return the ranks that at least one of these calls needs."""
    needed: set[int] = set()
    seen: set[Position] = set()  # all who wait at one position need the same ranks
    for state, call in calls:
        same_for_all = call.is_collective and call.traits.needs is not Needs.NEIGHBOURS
        if same_for_all and call.position in seen:
            continue
        if same_for_all:
            seen.add(call.position)
        needed |= directly_needed(inspection, state, call)
    return needed


def _waits_or_ended(snapshot: Snapshot, rank: int) -> bool:
    """Say whether a rank has ended, or waits for other ranks. One that waits for a key is late as one that computes."""
    state = snapshot.state(rank)
    if state is None or state.end is not None:
        return state is not None
    return state.waits and all(waiting.call.family is not Family.STORE for waiting in state.waiting)


def first_unmet(inspection: Inspection, state: RankState, waiting: Waiting) -> Call:
    """Return what a thread waits for and has not got: the call it is in, or the first request that nothing has met."""
    for call in waiting.requests:
        if call.family in (Family.RECEIVE, Family.PROBE):
            if not has_arrived(inspection, state, call):
                return call
        elif call.family is Family.SEND:
            if not has_been_received(inspection, state, call):
                return call
        elif not call.is_collective or directly_needed(inspection, state, call):
            return call
    return waiting.requests[0] if waiting.requests else waiting.call


def has_been_received(inspection: Inspection, state: RankState, call: Call) -> bool:
    """Say whether a message that a rank has sent is at its receiver, as far as is known."""
    known = inspection.communicator(call.communicator)
    rank = known.rank_of(call.peer) if known is not None else None
    receiver = inspection.state(rank) if rank is not None else None
    if known is None or receiver is None:
        return False
    received = receiver.received.get((call.communicator, known.member(state.rank), call.tag), 0)
    return received >= (call.message_number or state.num_sent(call))


def has_arrived(inspection: Inspection, state: RankState, call: Call) -> bool:
    """Say whether a message that a receive wants is under way to it."""
    known = inspection.communicator(call.communicator)
    if known is None:
        return False
    me, incoming = known.member(state.rank), call.incoming
    for member in known.senders_to(state.rank) if incoming.source == ANY else (incoming.source,):
        rank = known.rank_of(member)
        sender = inspection.state(rank) if rank is not None else None
        tags = tags_in_flight(sender, state, call.communicator, me, member) if sender is not None else ()
        if any(incoming.takes(member, tag) for tag in tags):
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


def tags_in_flight(
    sender: RankState, receiver: RankState, communicator: str, me: int, member: int, *, without: Sequence[Call] = ()
) -> Iterable[int]:
    """Return the tags of messages sent by `member` to `me` that have not been received; `without` some sends."""
    refused = _refused_channel(sender)
    lost = Counter((call.communicator, call.peer, call.tag) for call in without if call.family is Family.SEND)
    for channel, count in sender.sent.items():
        name, peer, tag = channel
        if name == communicator and peer == me:
            key: Channel = (communicator, member, tag)
            if count - (channel == refused) - lost[channel] > receiver.received.get(key, 0):
                yield tag


def _refused_channel(sender: RankState) -> Channel | None:
    """Return the channel of the send that a rank has died of, if it did: it was counted before it was made.

    mpi4py refuses what it cannot send, such as an array that is not contiguous. A send and receive in one call is left
    out: what it sends may have left before the other half failed.
    """
    if sender.end is None or sender.end.kind is not EndKind.RAISED or sender.end.failed_call is None:
        return None
    call = sender.call(sender.end.failed_call)
    return (call.communicator, call.peer, call.tag) if call is not None and call.family is Family.SEND else None
