"""Which ranks can never move again: an AND-OR fixpoint over what each waiting rank waits for.

Ranks that run can do anything. A waiting rank can move if what it waits for is there, or can still come from one that
can move. What is left over can never move, if the snapshot is a true state of the job. Nothing here knows time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.guard.shared_memory.layout import ANY, NOBODY
from paceline.guard.shared_memory.operations import Family, Needs
from paceline.guard.verdict.snapshot import Call, Position, RankState, Snapshot, Waiting
from paceline.guard.verdict.waits.served_calls import callers_of, is_rpc
from paceline.guard.verdict.waits.stuck_collectives import stuck_in_collectives
from paceline.guard.verdict.waits.topology_edges import silent_sources
from paceline.guard.verdict.waits.waited_for import posted_receives, tags_in_flight
from paceline.guard.verdict.waits.window_waits import lock_holders, lock_targets, partners_without_token

_MANY = 256  # ranks; with fewer of them it does not pay to look for classes


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
    if len(snapshot.ranks) >= _MANY:
        found = stuck_in_collectives(snapshot, cautious=cautious)
        if found is not None:
            return found
    return _Fixpoint(snapshot, cautious).stuck()


class _Fixpoint:
    def __init__(self, snapshot: Snapshot, cautious: bool) -> None:
        self._snapshot, self._cautious = snapshot, cautious
        self._gates: dict[tuple[str, int, int], _Gate] = {}
        self._needed_by: dict[int, list[_Gate]] = {}
        self._dependents: dict[int, set[int]] = {}  # rank -> ranks to look at again once it can move
        self._waiting: dict[int, RankState] = {}
        self._moves: set[int] = set()
        self._asking: int = -1
        self._receives: dict[int, list[Call]] = {}
        self._has_workers = any(map(is_rpc, snapshot.communicators))
        self._missing_cache: dict[Position, frozenset[int]] = {}

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
                    again |= self._dependents.pop(rank, set())
                    for gate in self._needed_by.pop(rank, ()):
                        gate.closed -= 1
                        if gate.closed == 0:
                            again.update(gate.waiters)
            fresh = [rank for rank in again if rank not in self._moves and self._can_move(rank)]
        return frozenset(self._waiting.keys() - self._moves)

    def _can_move(self, rank: int) -> bool:
        self._asking = rank
        state = self._waiting[rank]
        is_worker = self._has_workers and bool(callers_of(self._snapshot, rank))
        if is_worker and not any(map(self._needs_ended_worker, state.waiting)):
            return True  # it may be called, or be answered and run what waits for that, and then do anything
        return any(self._thread_can_move(state, waiting) for waiting in state.waiting)

    def _thread_can_move(self, state: RankState, waiting: Waiting) -> bool:
        if waiting.call.has_own_timeout:
            return True
        if waiting.call.family is not Family.WAIT:
            return self._call_can_return(state, waiting.call)
        if not waiting.requests or (not waiting.is_complete and waiting.any_of):
            return True
        conditions = [self._call_can_return(state, request) for request in waiting.requests]
        return any(conditions) if waiting.any_of else all(conditions)

    def _call_can_return(self, state: RankState, call: Call) -> bool:
        if call.communicator not in self._snapshot.communicators:
            return True
        family = call.family
        if family is Family.COLLECTIVE:
            return self._collective_can_return(state, call)
        if family is Family.SEND:
            return self._send_can_return(state, call)
        if family is Family.EXCHANGE:
            return self._send_can_return(state, call) and self._receive_can_return(state, call)
        if family is Family.EPOCH:
            return self._epoch_can_go_on(state, call)
        if family is Family.LOCK:
            return self._lock_can_be_had(state, call)
        if family is Family.STORE:
            return self._key_can_come(state, call)
        if family is Family.REMOTE:
            return self._answer_can_come(state, call)
        return self._receive_can_return(state, call)

    # collectives

    def _collective_can_return(self, state: RankState, call: Call) -> bool:
        missing = self._missing(call.position)
        if missing and call.traits.needs is Needs.NEIGHBOURS:
            missing &= self._neighbours(state, call)
        if not missing and call.traits.needs is Needs.NEIGHBOURS and silent_sources(self._snapshot, state, call):
            return self._cautious and call.num_bytes == 0
        if not missing:
            return self._cautious or self._may_be_completed(state, call)
        if self._cautious:
            missing = self._certainly_needed(state, call, missing)
            if not missing:
                return True
        gate = self._gate(call, missing)
        gate.waiters.add(self._asking)
        return gate.closed == 0

    def _may_be_completed(self, state: RankState, call: Call) -> bool:
        """Say whether a collective that all have begun may end: nobody has failed with it, or one may bring it on."""
        ranks = self._snapshot.communicators[call.communicator].ranks
        failed = {rank for rank in ranks if self._has_abandoned(rank, call.position)}
        return not failed or any(self._can_still_move(rank) for rank in ranks if rank not in {*failed, state.rank})

    def _has_abandoned(self, rank: int, position: Position) -> bool:
        other = self._snapshot.state(rank)
        return other is not None and any(call.is_collective and call.position == position for call in other.abandoned)

    def _missing(self, position: Position) -> frozenset[int]:
        if position not in self._missing_cache:
            states, communicator = self._snapshot.ranks, position.communicator
            self._missing_cache[position] = frozenset(
                rank
                for rank in self._snapshot.communicators[communicator].ranks
                if (state := states[rank]) is None
                or ((begun := state.begun(communicator)) is not None and begun < position.sequence)
            )
        return self._missing_cache[position]

    def _neighbours(self, state: RankState, call: Call) -> frozenset[int]:
        """Return the ranks that a rank meets in a neighbourhood collective; nobody, if it could not tell of them."""
        known = self._snapshot.communicators[call.communicator]
        ranks = map(known.rank_of, state.neighbours.get(call.communicator, ()))
        return frozenset(rank for rank in ranks if rank is not None)

    def _certainly_needed(self, state: RankState, call: Call, missing: frozenset[int]) -> frozenset[int]:
        needs = call.traits.needs
        known = self._snapshot.communicators[call.communicator]
        ranks = known.ranks
        if known.num_first:  # how the own side of an intercommunicator shares its work is the library's affair
            missing &= frozenset(known.other_side(state.rank))
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

    # windows

    def _epoch_can_go_on(self, state: RankState, call: Call) -> bool:
        if not call.traits.blocks or (self._cautious and call.traits.needs is not Needs.ALL):
            return True  # the library may let this call return, and wait in a later one
        return all(self._can_still_move(rank) for rank in partners_without_token(self._snapshot, state, call))

    def _lock_can_be_had(self, state: RankState, call: Call) -> bool:
        """Say whether a call can get its lock. It is stuck only if nobody can move who has to do with the lock.

        A target that runs may have to come into the library before anybody gets its lock. One that waits inside it
        serves others meanwhile.
        """
        targets = [rank for rank in lock_targets(self._snapshot, call) if rank != state.rank]
        if self._cautious or any(self._can_still_move(rank) for rank in targets):
            return True
        if call.peer != ANY and any(self._has_ended(rank) for rank in targets):
            return False
        return all(self._can_still_move(rank) for rank in lock_holders(self._snapshot, state, call))

    def _has_ended(self, rank: int) -> bool:
        state = self._snapshot.state(rank)
        return state is not None and state.end is not None

    # stores

    def _key_can_come(self, state: RankState, call: Call) -> bool:
        """Say whether a key can still come, or is there already: then the call does not stay inside."""
        others = [rank for rank in self._snapshot.communicators[call.communicator].ranks if rank != state.rank]
        return self._cautious or any(self._can_still_move(rank) for rank in others)

    # functions on other ranks

    def _answer_can_come(self, state: RankState, call: Call) -> bool:
        """Say whether a function on another rank may still answer: it may as long as that rank is there."""
        rank = self._snapshot.communicators[call.communicator].rank_of(call.peer)
        return self._cautious or call.has_own_timeout or rank is None or not self._has_ended(rank)

    def _needs_ended_worker(self, waiting: Waiting) -> bool:
        """Say whether a thread waits by rpc for a rank that has ended: nothing that others call can change that."""
        for call in waiting.awaited:
            known = self._snapshot.communicators.get(call.communicator)
            if known is None or not is_rpc(call.communicator):
                continue
            needed = self._missing(call.position) if call.is_collective else {known.rank_of(call.peer)}
            if any(rank is not None and self._has_ended(rank) for rank in needed):
                return True
        return False

    # messages

    def _send_can_return(self, state: RankState, call: Call) -> bool:
        known = self._snapshot.communicators[call.communicator]
        receiver = known.rank_of(call.peer)
        if receiver is None:
            return True
        if self._cautious and call.traits.may_buffer:
            return True
        other = self._snapshot.state(receiver)
        if other is None or not (other.messages_known and state.messages_known):
            return True
        sender, number = known.member(state.rank), call.message_number
        received = other.received.get((call.communicator, sender, call.tag), 0)
        if received >= (number or state.num_sent(call)):  # a persistent send has no number: it may be the last
            return True
        is_abandoned = bool(other.abandoned) and not self._cautious  # then its receives take nothing any more
        takers = sum(
            posted.communicator == call.communicator and posted.incoming.takes(sender, call.tag)
            for posted in (() if is_abandoned else self._posted_receives(receiver))
        )
        # those that came before it take one each, unless some were received that nobody has counted
        if takers and (other.num_uncertain or received + takers >= number):
            return True
        return self._can_still_move(receiver)

    def _receive_can_return(self, state: RankState, call: Call) -> bool:
        incoming = call.incoming
        known = self._snapshot.communicators[call.communicator]
        if incoming.source == NOBODY or (incoming.source != ANY and known.rank_of(incoming.source) is None):
            return True
        if not state.messages_known:
            return True
        me = known.member(state.rank)
        candidates = known.senders_to(state.rank) if incoming.source == ANY else (incoming.source,)
        can = False
        for member in candidates:
            sender = known.ranks[member]
            other = self._snapshot.state(sender)
            if other is None or not other.messages_known:
                return True
            lost = () if self._cautious else other.abandoned
            tags = tags_in_flight(other, state, call.communicator, me, member, without=lost)
            if any(incoming.takes(member, tag) for tag in tags):
                return True
            can = (sender != state.rank and self._can_still_move(sender)) or can
        return can

    def _posted_receives(self, rank: int) -> list[Call]:
        if rank not in self._receives:
            self._receives[rank] = list(posted_receives(self._snapshot.ranks[rank]))
        return self._receives[rank]

    def _can_still_move(self, rank: int) -> bool:
        if rank in self._moves:
            return True
        self._dependents.setdefault(rank, set()).add(self._asking)
        return False
