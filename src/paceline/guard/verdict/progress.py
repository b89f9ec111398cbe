"""Which ranks can never move again: an AND-OR fixpoint over what each waiting rank waits for.

Ranks that run can do anything. A waiting rank can move if what it waits for is there, or can still come from one that
can move. What is left over can never move, if the snapshot is a true state of the job. Nothing here knows time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from paceline.guard.shared_memory.layout import ANY, NOBODY
from paceline.guard.shared_memory.operations import Family, Needs
from paceline.guard.verdict.match import received_half
from paceline.guard.verdict.snapshot import Call, Channel, RankState, Snapshot, Waiting, fits


@dataclass(slots=True)
class _Gate:
    """A position of a communicator and the members it needs that have not come, and may not."""

    missing: frozenset[int]
    closed: int = 0  # how many of the missing cannot come, as far as is known yet
    waiters: set[int] = field(default_factory=set)


def stuck_ranks(snapshot: Snapshot, *, cautious: bool) -> frozenset[int]:
    """Return the live ranks that can never move again.

    Cautious: a call that a library may complete without its partners (a send that is buffered, a broadcast at its
    root) is taken to complete. Otherwise it is taken to wait for all, which is right only if it has stayed inside
    for a while although it had the processor.
    """
    return _Fixpoint(snapshot, cautious).stuck()


class _Fixpoint:
    def __init__(self, snapshot: Snapshot, cautious: bool) -> None:
        self._snapshot, self._cautious = snapshot, cautious
        self._gates: dict[tuple[str, int, int], _Gate] = {}
        self._needed_by: dict[int, list[_Gate]] = {}
        self._told: dict[int, set[int]] = {}  # rank -> ranks to look at again once it can move
        self._waiting: dict[int, RankState] = {}
        self._moves: set[int] = set()
        self._at_work: int = -1
        self._receives: dict[int, list[Call]] = {}
        self._missing_cache: dict[tuple[str, int], frozenset[int]] = {}

    def stuck(self) -> frozenset[int]:
        ranks = self._snapshot.ranks
        for rank, state in enumerate(ranks):
            if state is not None and state.waits:
                self._waiting[rank] = state
            elif state is None or state.end is None:
                self._moves.add(rank)
        if not self._waiting:
            return frozenset()
        fresh = [rank for rank in self._waiting if self._can_move(rank)]
        while fresh:
            again: set[int] = set()
            for rank in fresh:
                if rank not in self._moves:
                    self._moves.add(rank)
                    again |= self._told.pop(rank, set())
                    for gate in self._needed_by.pop(rank, ()):
                        gate.closed -= 1
                        if gate.closed == 0:
                            again.update(gate.waiters)
            fresh = [rank for rank in again if rank not in self._moves and self._can_move(rank)]
        return frozenset(self._waiting.keys() - self._moves)

    def _can_move(self, rank: int) -> bool:
        self._at_work = rank
        state = self._waiting[rank]
        return any(self._thread_can(state, waiting) for waiting in state.threads if waiting is not None)

    def _thread_can(self, state: RankState, waiting: Waiting) -> bool:
        if waiting.call.has_own_timeout:
            return True
        if waiting.call.facts.family is not Family.WAIT:
            return self._call_can(state, waiting.call)
        if not waiting.requests or (not waiting.is_complete and waiting.any_of):
            return True
        conditions = [self._call_can(state, request) for request in waiting.requests]
        return any(conditions) if waiting.any_of else all(conditions)

    def _call_can(self, state: RankState, call: Call) -> bool:
        if call.communicator not in self._snapshot.groups:
            return True
        family = call.facts.family
        if family is Family.COLLECTIVE:
            return self._collective_can(state, call)
        if family is Family.SEND:
            return self._send_can(state, call)
        if family is Family.EXCHANGE:
            return self._send_can(state, call) and self._receive_can(state, call)
        return self._receive_can(state, call)

    # collectives

    def _collective_can(self, state: RankState, call: Call) -> bool:
        missing = self._missing(call.communicator, call.sequence)
        if not missing:
            return True
        if self._cautious:
            missing = self._certainly_needed(state, call, missing)
            if not missing:
                return True
        gate = self._gate(call, missing)
        gate.waiters.add(self._at_work)
        return gate.closed == 0

    def _missing(self, communicator: str, sequence: int) -> frozenset[int]:
        key = (communicator, sequence)
        if key not in self._missing_cache:
            states = self._snapshot.ranks
            self._missing_cache[key] = frozenset(
                rank
                for rank in self._snapshot.groups[communicator].ranks
                if (state := states[rank]) is None or state.positions.get(communicator, 0) < sequence
            )
        return self._missing_cache[key]

    def _certainly_needed(self, state: RankState, call: Call, missing: frozenset[int]) -> frozenset[int]:
        needs = call.facts.needs
        ranks = self._snapshot.groups[call.communicator].ranks
        root = ranks[call.root] if 0 <= call.root < len(ranks) else None
        if needs is Needs.ALL and call.num_bytes != 0:
            return missing
        if needs is Needs.FROM_ROOT and root is not None and state.rank != root:
            return missing & {root}
        if needs is Needs.TO_ROOT and state.rank == root and call.num_bytes != 0:
            return missing
        return frozenset()

    def _gate(self, call: Call, missing: frozenset[int]) -> _Gate:
        key = (call.communicator, call.sequence, hash(missing))
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = _Gate(missing)
            for rank in missing:
                other = self._snapshot.ranks[rank]
                left = other is not None and call.communicator in other.freed
                if left or rank not in self._moves:
                    gate.closed += 1
                    if not left:
                        self._needed_by.setdefault(rank, []).append(gate)
        return gate

    # messages

    def _send_can(self, state: RankState, call: Call) -> bool:
        group = self._snapshot.groups[call.communicator]
        if call.root == NOBODY or not 0 <= call.root < len(group.ranks):
            return True
        if self._cautious and call.facts.may_buffer:
            return True
        receiver = group.ranks[call.root]
        other = self._snapshot.state(receiver)
        if other is None or not (other.messages_known and state.messages_known):
            return True
        sender = group.member(state.rank)
        if call.sequence and other.received.get((call.communicator, sender, call.tag), 0) >= call.sequence:
            return True
        for posted in self._posted_receives(receiver):
            source, tag = received_half(posted)[:2]
            if posted.communicator == call.communicator and fits(source, sender) and fits(tag, call.tag):
                return True
        return self._ask(receiver)

    def _receive_can(self, state: RankState, call: Call) -> bool:
        source, tag = received_half(call)[:2]
        group = self._snapshot.groups[call.communicator]
        if source == NOBODY or (source != ANY and not 0 <= source < len(group.ranks)):
            return True
        if not state.messages_known:
            return True
        me = group.member(state.rank)
        candidates = range(len(group.ranks)) if source == ANY else (source,)
        can = False
        for member in candidates:
            sender = group.ranks[member]
            other = self._snapshot.state(sender)
            if other is None or not other.messages_known:
                return True
            if any(fits(tag, given) for given in in_flight(other, state, call.communicator, me, member)):
                return True
            can = (sender != state.rank and self._ask(sender)) or can
        return can

    def _posted_receives(self, rank: int) -> list[Call]:
        if rank not in self._receives:
            self._receives[rank] = list(posted_receives(self._snapshot.ranks[rank]))
        return self._receives[rank]

    def _ask(self, rank: int) -> bool:
        if rank in self._moves:
            return True
        self._told.setdefault(rank, set()).add(self._at_work)
        return False


def first_unmet(snapshot: Snapshot, state: RankState, waiting: Waiting) -> Call:
    """Return what a thread waits for and has not got: the call it is in, or the first request that nothing has met."""
    for call in waiting.requests:
        if call.facts.family not in (Family.RECEIVE, Family.PROBE):
            if call.facts.family is not Family.COLLECTIVE or _directly_needed(snapshot, state, call):
                return call
            continue
        group = snapshot.groups.get(call.communicator)
        members = range(len(group.ranks)) if group is not None and call.root == ANY else (call.root,)
        me = group.member(state.rank) if group is not None else 0
        others = [(member, snapshot.state(group.ranks[member])) for member in members] if group is not None else []
        if not any(
            fits(call.tag, tag)
            for member, other in others
            if other is not None
            for tag in in_flight(other, state, call.communicator, me, member)
        ):
            return call
    return waiting.requests[0] if waiting.requests else waiting.call


def ranks_waited_for(snapshot: Snapshot) -> frozenset[int]:
    """Return the ranks that run and that waiting ranks need, directly."""
    found: set[int] = set()
    seen: set[tuple[str, int]] = set()  # positions of collectives: all who wait there need the same ranks
    for state in snapshot.ranks:
        if state is None or not state.waits:
            continue
        for waiting in state.threads:
            if waiting is None:
                continue
            for call in waiting.requests or (waiting.call,):
                position = (call.communicator, call.sequence)
                if call.is_collective and position in seen:
                    continue
                seen.add(position if call.is_collective else ("", 0))
                found |= _directly_needed(snapshot, state, call)
    return frozenset(rank for rank in found if not _waits_or_ended(snapshot, rank))


def _waits_or_ended(snapshot: Snapshot, rank: int) -> bool:
    state = snapshot.state(rank)
    return state is not None and (state.waits or state.end is not None)


def _directly_needed(snapshot: Snapshot, state: RankState, call: Call) -> set[int]:
    group = snapshot.groups.get(call.communicator)
    if group is None:
        return set()
    if call.facts.family is Family.COLLECTIVE:
        return {
            rank
            for rank in group.ranks
            if (other := snapshot.state(rank)) is None or other.positions.get(call.communicator, 0) < call.sequence
        }
    peers = {call.root} | ({call.source} if call.facts.family is Family.EXCHANGE else set())
    if ANY in peers:
        return set(group.ranks) - {state.rank}
    return {group.ranks[peer] for peer in peers if 0 <= peer < len(group.ranks)}


def posted_receives(state: RankState | None) -> Iterator[Call]:
    """Return the receives a rank has posted: it waits in one, or one is under way."""
    if state is None:
        return
    families = (Family.RECEIVE, Family.EXCHANGE)
    for waiting in state.threads:
        if waiting is not None and waiting.call.facts.family in families:
            yield waiting.call
    for call in state.posted:
        if call.facts.family in families:
            yield call


def in_flight(sender: RankState, receiver: RankState, communicator: str, me: int, member: int) -> Iterable[int]:
    """Return the tags of messages sent by `member` to `me` that have not been received."""
    for (name, peer, tag), count in sender.sent.items():
        if name == communicator and peer == me:
            key: Channel = (communicator, member, tag)
            if count > receiver.received.get(key, 0):
                yield tag
