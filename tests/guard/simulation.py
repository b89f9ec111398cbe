"""A job that is not run: ranks as lists of calls, moved one at a time, and snapshots of them at any moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from paceline.guard.shared_memory.layout import ANY, COMPLETE_TOKEN, EXCLUSIVE_LOCK, POST_TOKEN
from paceline.guard.shared_memory.operations import Family, Needs
from paceline.guard.verdict.snapshot import Call, End, EndKind, Membership, RankState, Snapshot, Waiting

Program = Sequence[Call]


@dataclass(slots=True)
class _Rank:
    program: Program
    at: int = 0
    inside: Call | None = None
    positions: dict[str, int] = field(default_factory=dict)
    sent: dict[tuple[str, int, int], int] = field(default_factory=dict)
    received: dict[tuple[str, int, int], int] = field(default_factory=dict)
    given: dict[tuple[str, int, int], int] = field(default_factory=dict)
    taken: dict[tuple[str, int, int], int] = field(default_factory=dict)
    held: dict[tuple[str, int, int], int] = field(default_factory=dict)
    made_by: dict[str, int] = field(default_factory=dict)
    history: list[Call] = field(default_factory=list)
    ended: bool = False


class Job:
    """Ranks that make their calls. Sends wait for their receive unless `buffers`; collectives wait as they must.

    Unless it `buffers`, Start waits for every Post; otherwise Complete does. A lock is had before Lock returns.
    `neighbours` are members by communicator and rank, `groups` the members that a hash stands for, `made_at` the
    communicators that are made by the calls at a position.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        communicators: Mapping[str, Membership],
        *,
        buffers: bool,
        ends: Mapping[int, End],
        neighbours: Mapping[str, Mapping[int, tuple[int, ...]]] | None = None,
        groups: Mapping[int, tuple[int, ...]] | None = None,
        made_at: Mapping[tuple[str, int], Sequence[str]] | None = None,
    ) -> None:
        self.ranks = [_Rank(program) for program in programs]
        self.communicators, self.buffers, self.ends = dict(communicators), buffers, dict(ends)
        self.neighbours, self.groups, self.made_at = neighbours or {}, groups or {}, made_at or {}

    def can_move(self, rank: int) -> bool:
        """Say whether a rank can begin, leave or end something now."""
        mine = self.ranks[rank]
        if mine.ended:
            return False
        return mine.inside is None or self._is_complete(rank, mine.inside)

    def move(self, rank: int) -> None:
        """Let a rank begin its next call, or leave the one it is in, or end."""
        mine = self.ranks[rank]
        if mine.inside is not None:
            self._leave(mine, mine.inside)
        elif mine.at == len(mine.program):
            mine.ended = True
        else:
            self._begin(rank, mine)

    def _begin(self, rank: int, mine: _Rank) -> None:
        call = mine.program[mine.at]
        name, family = call.communicator, call.family
        if family is Family.COLLECTIVE:
            mine.positions[name] = mine.positions.get(name, 0) + 1
            call = replace(call, sequence=mine.positions[name])
        elif family is Family.SEND:
            key = (name, call.peer, call.tag)
            mine.sent[key] = mine.sent.get(key, 0) + 1
            call = replace(call, message_number=mine.sent[key])
        elif call.operation == "Win.Post":
            self._change(mine.given, call, POST_TOKEN)
        mine.at += 1
        mine.inside = replace(call, number=len(mine.history))
        mine.history.append(mine.inside)

    def _leave(self, mine: _Rank, call: Call) -> None:
        for made in self.made_at.get((call.communicator, call.sequence), ()):
            if self.ranks.index(mine) in self.communicators[made].ranks:
                mine.made_by[made] = call.number
        if call.family is Family.RECEIVE:
            source, tag = self._available(self.ranks.index(mine), call)[0]
            key = (call.communicator, source, tag)
            mine.received[key] = mine.received.get(key, 0) + 1
        elif call.operation == "Win.Complete":
            self._change(mine.given, call, COMPLETE_TOKEN)
            self._change(mine.taken, call, POST_TOKEN)
        elif call.operation == "Win.Wait":
            self._change(mine.taken, call, COMPLETE_TOKEN)
        elif call.operation in ("Win.Lock", "Win.Lock_all"):
            mine.held[call.communicator, call.peer, call.tag] = 1
        elif call.operation in ("Win.Unlock", "Win.Unlock_all"):
            mine.held[call.communicator, call.peer, call.tag] = 0
        mine.history[call.number] = replace(call, left_ns=1)
        mine.inside = None

    def _change(self, counts: dict[tuple[str, int, int], int], call: Call, token: int) -> None:
        for member in self.groups[call.members_hash]:
            key = (call.communicator, member, token)
            counts[key] = counts.get(key, 0) + 1

    def _is_complete(self, rank: int, call: Call) -> bool:
        known = self.communicators[call.communicator]
        family = call.family
        if family is Family.COLLECTIVE:
            arrived = {r for r in known.ranks if self.ranks[r].positions.get(call.communicator, 0) >= call.sequence}
            root = known.ranks[call.root] if call.traits.rooted else None
            if call.traits.needs is Needs.NEIGHBOURS:
                return arrived >= {known.ranks[member] for member in self.neighbours[call.communicator][rank]}
            if call.traits.needs is Needs.FROM_ROOT:
                return root in arrived
            if call.traits.needs is Needs.TO_ROOT and rank != root:
                return True
            return arrived == set(known.ranks)
        if family is Family.EPOCH:
            return self._has_tokens(rank, call)
        if family is Family.LOCK:
            return not self._is_kept_out(rank, call)
        if family is Family.SEND:
            return self.buffers or call.operation == "Bsend" or self._is_wanted(rank, call)
        return bool(self._available(rank, call))

    def _has_tokens(self, rank: int, call: Call) -> bool:
        if call.operation == "Win.Post" or (call.operation == "Win.Start" and self.buffers):
            return True
        known, mine = self.communicators[call.communicator], self.ranks[rank]
        me = known.ranks.index(rank)
        return all(
            self.ranks[known.ranks[member]].given.get((call.communicator, me, call.tag), 0)
            > mine.taken.get((call.communicator, member, call.tag), 0)
            for member in self.groups[call.members_hash]
        )

    def _is_kept_out(self, rank: int, call: Call) -> bool:
        """Say whether a call waits for a lock: another rank holds it, or the target has ended and answers nobody."""
        known = self.communicators[call.communicator]
        if call.peer != ANY and known.ranks[call.peer] != rank and self.ranks[known.ranks[call.peer]].ended:
            return True
        if call.operation not in ("Win.Lock", "Win.Lock_all"):
            return False
        held = [
            key for other in self.ranks if other is not self.ranks[rank] for key, count in other.held.items() if count
        ]
        return any(
            window == call.communicator
            and (ANY in (target, call.peer) or target == call.peer)
            and EXCLUSIVE_LOCK in (kind, call.tag)
            for window, target, kind in held
        )

    def _available(self, rank: int, call: Call) -> list[tuple[int, int]]:
        """Return source and tag of messages that a receive could take now."""
        known = self.communicators[call.communicator]
        me = known.ranks.index(rank)
        found = []
        for member in range(len(known.ranks)) if call.peer == ANY else (call.peer,):
            for (name, peer, tag), count in self.ranks[known.ranks[member]].sent.items():
                taken = self.ranks[rank].received.get((call.communicator, member, tag), 0)
                if name == call.communicator and peer == me and call.tag in (ANY, tag) and count > taken:
                    found.append((member, tag))
        return found

    def _is_wanted(self, rank: int, call: Call) -> bool:
        known = self.communicators[call.communicator]
        me = known.ranks.index(rank)
        receiver = self.ranks[known.ranks[call.peer]]
        if receiver.received.get((call.communicator, me, call.tag), 0) >= call.message_number:
            return True
        other = receiver.inside
        return (
            other is not None
            and other.family is Family.RECEIVE
            and other.communicator == call.communicator
            and other.peer in (ANY, me)
            and other.tag in (ANY, call.tag)
        )

    def snapshot(self) -> Snapshot:
        """Return the job as the judge would see it."""
        ranks = [self._state(rank) for rank in range(len(self.ranks))]
        return Snapshot(ranks=ranks, communicators=self.communicators, new_groups=self.groups)

    def _state(self, rank: int) -> RankState:
        mine = self.ranks[rank]
        return RankState(
            rank=rank,
            end=self.ends.get(rank, End(kind=EndKind.EXITED)) if mine.ended else None,
            threads=(Waiting(call=mine.inside) if mine.inside is not None else None,),
            positions=dict(mine.positions),
            sent=dict(mine.sent),
            received=dict(mine.received),
            given=dict(mine.given),
            taken=dict(mine.taken),
            held=dict(mine.held),
            made_by=dict(mine.made_by),
            neighbours={name: by_rank[rank] for name, by_rank in self.neighbours.items() if rank in by_rank},
            history=tuple(mine.history),
        )
