"""Who may call functions on whom by torch.distributed.rpc: such a call may make a rank do anything."""

from __future__ import annotations

from paceline.guard.shared_memory.layout import RPC_PREFIX
from paceline.guard.verdict.snapshot import Snapshot


def is_rpc(identity: str) -> bool:
    """Say whether the members of a communicator are the workers of torch.distributed.rpc.

    >>> is_rpc("9f3c.0.rpc-1"), is_rpc("9f3c.0.torch-world-1")
    (True, False)
    """
    return identity.rpartition(".")[2].startswith(RPC_PREFIX)


def callers_of(snapshot: Snapshot, rank: int) -> set[int]:
    """Return the ranks that could call a function on a rank: the other workers, while both take part."""
    callers: set[int] = set()
    for identity, known in snapshot.communicators.items():
        if is_rpc(identity) and _takes_part(snapshot, rank, identity):
            callers.update(other for other in known.ranks if other != rank and _takes_part(snapshot, other, identity))
    return callers


def _takes_part(snapshot: Snapshot, rank: int, identity: str) -> bool:
    """Say whether a rank has joined the workers, or may have, and has not left them."""
    state = snapshot.state(rank)
    return state is None or (state.end is None and state.begun(identity) != 0 and identity not in state.freed)
