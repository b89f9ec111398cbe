"""What is known of each operation: its family, what it waits for, and the numbers that stand for names in a record.

It is shared by the ranks, which write numbers, and the judge, which reads them. It imports nothing but the standard
library.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Family(Enum):
    """How an operation meets its partners."""

    COLLECTIVE = "collective"
    SEND = "send"
    RECEIVE = "receive"
    EXCHANGE = "exchange"  # a send and a receive in one call
    PROBE = "probe"
    WAIT = "wait"


class Needs(Enum):
    """Whom a member of a collective must wait for, whatever the algorithm."""

    ALL = "all"  # everybody waits for everybody
    FROM_ROOT = "from root"  # all wait for the root; how long the root waits is the library's affair
    TO_ROOT = "to root"  # the root waits for all
    UNKNOWN = "unknown"  # depends on counts or on the library


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a library."""

    code: int
    name: str
    family: Family
    needs: Needs = Needs.UNKNOWN
    may_buffer: bool = False  # a send that may return before anyone receives it
    blocks: bool = True
    rooted: bool = False


_MPI_COLLECTIVES = {
    Needs.ALL: "Barrier Allreduce Allgather Alltoall Reduce_scatter_block barrier allgather alltoall allreduce",
    Needs.FROM_ROOT: "Bcast Scatter Scatterv bcast scatter",
    Needs.TO_ROOT: "Gather Reduce Gatherv gather reduce",
    Needs.UNKNOWN: "Allgatherv Alltoallv Alltoallw Reduce_scatter Scan Exscan scan exscan "
    "Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw "
    "neighbor_allgather neighbor_alltoall",
}
_MPI_CREATION = (
    "Dup Dup_with_info Clone Split Split_type Create Create_cart Create_graph Create_dist_graph "
    "Create_dist_graph_adjacent Create_group Sub"
)
_TORCH_COLLECTIVES = {
    Needs.ALL: "barrier all_reduce all_gather all_gather_into_tensor all_gather_object all_to_all all_to_all_single "
    "reduce_scatter reduce_scatter_tensor all_reduce_coalesced all_gather_coalesced "
    "all_gather_into_tensor_coalesced reduce_scatter_tensor_coalesced new_group split_group init_process_group "
    "monitored_barrier",
    Needs.FROM_ROOT: "broadcast scatter broadcast_object_list scatter_object_list",
    Needs.TO_ROOT: "reduce gather gather_object",
}
_POINT_TO_POINT = {
    Family.SEND: "Send Ssend Rsend send ssend isend issend Isend Issend Irsend torch.send torch.isend "
    "Send_init Ssend_init Rsend_init Bsend bsend Ibsend ibsend Bsend_init",
    Family.RECEIVE: "Recv recv Irecv irecv Recv_init torch.recv torch.irecv Mprobe mprobe",
    Family.EXCHANGE: "Sendrecv Sendrecv_replace sendrecv Isendrecv Isendrecv_replace",
    Family.PROBE: "Probe probe",
    Family.WAIT: "Wait wait Waitall waitall Waitany waitany Waitsome waitsome torch.wait",
}
_RETURNS_AT_ONCE = {"Bsend", "bsend", "Ibsend", "ibsend", "Bsend_init"}
_SYNCHRONOUS = {"Ssend", "ssend", "Issend", "issend", "Ssend_init"}


def _family(names: str, **facts: object) -> list[tuple[str, dict[str, object]]]:
    return [(name, facts) for name in names.split()]


def _entries() -> list[tuple[str, dict[str, object]]]:
    entries: list[tuple[str, dict[str, object]]] = []
    for needs, names in _MPI_COLLECTIVES.items():
        for name in names.split():
            rooted = needs in (Needs.FROM_ROOT, Needs.TO_ROOT)
            entries.append((name, {"needs": needs, "rooted": rooted}))
            if name[0].isupper():
                entries.append((f"I{name.lower()}", {"needs": needs, "rooted": rooted, "blocks": False}))
                entries.append((f"{name}_init", {"needs": needs, "rooted": rooted, "blocks": False}))
    entries += _family(_MPI_CREATION, needs=Needs.ALL)
    for needs, names in _TORCH_COLLECTIVES.items():
        rooted = needs in (Needs.FROM_ROOT, Needs.TO_ROOT)
        entries += [(f"torch.{name}", {"needs": needs, "rooted": rooted}) for name in names.split()]
    for family, names in _POINT_TO_POINT.items():
        for name in names.split():
            later = name.lower().startswith(("i", "torch.i")) or name.endswith("_init") or name in _RETURNS_AT_ONCE
            buffers = family in (Family.SEND, Family.EXCHANGE) and name not in _SYNCHRONOUS
            entries.append((name, {"family": family, "may_buffer": buffers, "blocks": not later}))
    return entries


def _table() -> tuple[Operation, ...]:
    operations = []
    for code, (name, facts) in enumerate(_entries(), start=1):
        operations.append(Operation(code, name, **{"family": Family.COLLECTIVE, **facts}))  # type: ignore[arg-type]
    return tuple(operations)


OPERATIONS = _table()
BY_NAME = {operation.name: operation for operation in OPERATIONS}
BY_CODE = {operation.code: operation for operation in OPERATIONS}

# Element types by kind and size. 0: not known, or a type of the user's own, or raw bytes: it fits every other.
DTYPES = (
    "any", "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "bf16", "f4", "f8", "f16", "c4", "c8", "c16",
    "c32", "f8e4m3", "f8e5m2", "i16", "u16",
)  # fmt: skip
DTYPE_CODES = {name: code for code, name in enumerate(DTYPES)}

REDUCTIONS = (
    "none", "SUM", "PROD", "MAX", "MIN", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR", "MAXLOC", "MINLOC", "REPLACE",
    "NO_OP", "AVG", "PREMUL_SUM", "custom", "unknown",
)  # fmt: skip
REDUCTION_CODES = {name: code for code, name in enumerate(REDUCTIONS)}
UNKNOWN_REDUCTION = REDUCTION_CODES["unknown"]


def shown_name(name: str) -> str:
    """Return the name as the user writes it.

    >>> shown_name("torch.all_reduce"), shown_name("Barrier")
    ('all_reduce', 'Barrier')
    """
    return name.removeprefix("torch.")
