"""Which ranks can never move again, by classes: for large jobs whose waiting ranks are in plain collectives.

The rules are those of stuck_ranks.py, which holds for all jobs. Here ranks that wait for the same are looked at once:
what they need is a gate, and a gate opens when all that it needs can move.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from paceline.guard.shared_memory.operations import BY_NAME, Family, Needs
from paceline.guard.verdict.snapshot import Call, Membership, RankState, Snapshot
from paceline.guard.verdict.waits.served_calls import is_rpc

_UNKNOWN = 1 << 62  # a rank of which it is not known how far it has come may be anywhere
_GateKey = tuple[str, int, int | None]  # communicator, sequence, and the only member that is needed, if it is one


@dataclass(slots=True)
class _Gates:
    """What ranks wait for, and who waits there."""

    keys: dict[_GateKey, int] = field(default_factory=dict)
    needed: list[list[int]] = field(default_factory=list)
    stay_closed: list[bool] = field(default_factory=list)  # one that is needed has left the communicator for good
    waiters: list[list[int]] = field(default_factory=list)


def stuck_in_collectives(snapshot: Snapshot, *, cautious: bool) -> frozenset[int] | None:
    """Return the live ranks that can never move again; None if some wait for anything but a plain collective."""
    waiting = _plain_waits(snapshot)
    if waiting is None:
        return None
    moves = bytearray(map(_runs, snapshot.ranks))
    gates = _Gates()
    for call, ranks in _classes(snapshot, waiting):
        _add_class(snapshot, gates, moves, call, ranks, cautious=cautious)
    _open_gates(gates, moves)
    return frozenset(rank for rank in waiting if not moves[rank])


def _runs(state: RankState | None) -> bool:
    return state is None or (state.end is None and not state.waits)


def _plain_waits(snapshot: Snapshot) -> dict[int, Call] | None:
    """Return the calls that ranks wait in; None if that is not all that counts."""
    known = snapshot.communicators
    if any(map(is_rpc, known)) or any(one.num_first for one in known.values()):
        return None
    waiting = {}
    for rank, state in enumerate(snapshot.ranks):
        if state is None:
            continue
        if state.end is not None and state.posted:
            return None  # it may have failed in the midst of a collective
        if state.waits:
            (thread, *others) = state.waiting
            traits = BY_NAME[thread.call.operation]
            if others or traits.family is not Family.COLLECTIVE or traits.needs is Needs.NEIGHBOURS:
                return None
            waiting[rank] = thread.call
    return waiting


def _classes(snapshot: Snapshot, waiting: dict[int, Call]) -> Iterable[tuple[Call, list[int]]]:
    """Return the ranks that wait for the same, together with the call of one of them."""
    classes: dict[tuple[object, ...], tuple[Call, list[int]]] = {}
    for rank, call in waiting.items():
        is_root = call.root >= 0 and _root(snapshot.communicators.get(call.communicator), call) == rank
        key = (
            call.communicator, call.sequence, call.operation, call.root, is_root, call.num_bytes != 0, call.flags,
        )  # fmt: skip
        found = classes.get(key)
        if found is None:
            found = classes[key] = (call, [])
        found[1].append(rank)
    return classes.values()


def _root(known: Membership | None, call: Call) -> int | None:
    return known.rank_of(call.root) if known is not None else None


def _add_class(
    snapshot: Snapshot, gates: _Gates, moves: bytearray, call: Call, ranks: list[int], *, cautious: bool
) -> None:
    """Let ranks wait at the gate of their call, or move at once."""
    known = snapshot.communicators.get(call.communicator)
    if call.has_own_timeout or known is None:
        _let_move(moves, ranks)
        return
    needs, root = call.traits.needs, _root(known, call)
    only: int | None = None
    if cautious:
        if needs is Needs.FROM_ROOT and root is not None and ranks != [root]:
            only = root
        elif call.num_bytes == 0 or not (needs is Needs.ALL or (needs is Needs.TO_ROOT and ranks == [root])):
            _let_move(moves, ranks)
            return
    key = (call.communicator, call.sequence, only)
    if key not in gates.keys:
        needed = _missing(snapshot, known, call)
        _add_gate(snapshot, gates, key, needed if only is None else [rank for rank in needed if rank == only])
    gates.waiters[gates.keys[key]] += ranks


def _let_move(moves: bytearray, ranks: Iterable[int]) -> None:
    for rank in ranks:
        moves[rank] = True


def _missing(snapshot: Snapshot, known: Membership, call: Call) -> list[int]:
    """Return the members of a communicator that have not come to a position."""
    name, sequence, states = call.communicator, call.sequence, snapshot.ranks
    return [rank for rank in known.ranks if _begun(states[rank], name) < sequence]


def _begun(state: RankState | None, communicator: str) -> int:
    if state is None:
        return -1
    sequence = state.positions.get(communicator)
    if sequence is None:
        sequence = state.begun(communicator)
    return _UNKNOWN if sequence is None else sequence


def _add_gate(snapshot: Snapshot, gates: _Gates, key: _GateKey, needed: list[int]) -> None:
    gates.keys[key] = len(gates.needed)
    gates.needed.append(needed)
    states = map(snapshot.ranks.__getitem__, needed)
    gates.stay_closed.append(any(state is not None and key[0] in state.freed for state in states))
    gates.waiters.append([])


def _open_gates(gates: _Gates, moves: bytearray) -> None:
    """Let ranks move whose gates are open, which may open others, until nothing changes."""
    closed = [int(stays) for stays in gates.stay_closed]  # what each gate still waits for
    needing: dict[int, list[int]] = {}  # rank -> the gates that need it
    for gate, needed in enumerate(gates.needed):
        for rank in needed:
            if not moves[rank]:
                closed[gate] += 1
                needing.setdefault(rank, []).append(gate)
    opened = [gate for gate, num in enumerate(closed) if not num]
    while opened:
        for rank in gates.waiters[opened.pop()]:
            if not moves[rank]:
                moves[rank] = True
                for other in needing.get(rank, ()):
                    closed[other] -= 1
                    if not closed[other]:
                        opened.append(other)
