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
    EPOCH = "epoch"  # opens or closes an epoch of a window with the members of a group
    STORE = "store"  # waits for a key that any rank may set
    REMOTE = "remote"  # waits for the answer of a function that runs on another rank
    LOCK = "lock"  # needs the lock of a member of a window, or of all of them
    ACCESS = "access"  # reaches for the memory of a window; a later call completes it


class Needs(Enum):
    """Whom a member of a collective must wait for, whatever the algorithm."""

    ALL = "all"  # everybody waits for everybody
    FROM_ROOT = "from root"  # all wait for the root; how long the root waits is the library's affair
    TO_ROOT = "to root"  # the root waits for all
    NEIGHBOURS = "neighbours"  # each waits for its neighbours in the topology, at most
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
    checks_first: bool = False  # raises TypeError or ValueError only before it has sent anything
    may_return_early: bool = False  # programs rely on a library that lets it return before the others have come


_MPI_COLLECTIVES = {
    Needs.ALL: "Barrier Allreduce Allgather Alltoall Reduce_scatter_block barrier allgather alltoall allreduce",
    Needs.FROM_ROOT: "Bcast Scatter Scatterv bcast scatter",
    Needs.TO_ROOT: "Gather Reduce Gatherv gather reduce",
    Needs.UNKNOWN: "Allgatherv Alltoallv Alltoallw Reduce_scatter Scan Exscan scan exscan",
    Needs.NEIGHBOURS: "Neighbor_allgather Neighbor_allgatherv Neighbor_alltoall Neighbor_alltoallv Neighbor_alltoallw "
    "neighbor_allgather neighbor_alltoall",
}
_MPI_CREATION = (
    "Dup Dup_with_info Clone Split Split_type Create Create_cart Create_graph Create_dist_graph "
    "Create_dist_graph_adjacent Create_group Create_from_group Create_from_groups Sub"
)
# The leader of a side waits for its own side and for the other leader, so it is in a wait for two collectives.
_MPI_BRIDGES = "Create_intercomm Merge"
_LEADER_SUFFIX = " (leader)"
CREATE_INTERCOMM_OF_LEADER = f"Create_intercomm{_LEADER_SUFFIX}"
_LEADERS_SUFFIX = " (leaders)"
CREATE_INTERCOMM_OF_LEADERS = f"Create_intercomm{_LEADERS_SUFFIX}"
MEETINGS_OF_JOBS = ("Spawn", "Spawn_multiple", "Accept", "Connect")  # one side of each is one communicator
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
    "Send_init Ssend_init Rsend_init Bsend bsend Ibsend ibsend Bsend_init Psend_init",
    Family.RECEIVE: "Recv recv Irecv irecv Recv_init Precv_init torch.recv torch.irecv Mprobe mprobe",
    Family.EXCHANGE: "Sendrecv Sendrecv_replace sendrecv Isendrecv Isendrecv_replace",
    Family.PROBE: "Probe probe",
    Family.WAIT: "Wait wait Waitall waitall Waitany waitany Waitsome waitsome torch.wait",
}
# A window and a file are like communicators of their own. Whoever makes one waits for all members of its communicator.
WINDOW_CREATIONS = ("Win.Create", "Win.Allocate", "Win.Allocate_shared", "Win.Create_dynamic")
WINDOW_COLLECTIVES = ("Win.Fence", "Win.Free")
FILE_CREATIONS = ("File.Open",)
FILE_COLLECTIVES = (
    "File.Close", "File.Set_size", "File.Preallocate", "File.Set_view", "File.Set_atomicity", "File.Sync",
    "File.Seek_shared",
    *(f"File.{way}_{where}{part}" for way in ("Read", "Write") for where in ("at_all", "all", "ordered")
      for part in ("", "_begin", "_end")),
)  # fmt: skip
FILE_POSTINGS = tuple(f"File.I{way}_{where}" for way in ("read", "write") for where in ("at_all", "all"))
EPOCH_CALLS = ("Win.Post", "Win.Start", "Win.Complete", "Win.Wait")
LOCK_CALLS = (
    "Win.Lock", "Win.Lock_all", "Win.Unlock", "Win.Unlock_all", "Win.Flush", "Win.Flush_all", "Win.Flush_local",
    "Win.Flush_local_all",
)  # fmt: skip
WINDOW_ACCESSES = (
    "Win.Put", "Win.Get", "Win.Accumulate", "Win.Get_accumulate", "Win.Fetch_and_op", "Win.Compare_and_swap",
    "Win.Rput", "Win.Raccumulate", "Win.Rget_accumulate",
)  # fmt: skip
MPI_INIT = "MPI_Init"  # by importing mpi4py.MPI; a rank tells of it in a note, since it has no ring yet
# what makes a communicator of which each rank has a variable of its own
COMMUNICATOR_CREATIONS = (*_MPI_CREATION.split(), "torch.new_group", "torch.split_group")
STORE_CALLS = ("Store.get", "Store.wait")
_RPC_MEETINGS = ("torch.init_rpc", "torch.rpc.shutdown")
_RPC_CALLS = {"torch.rpc_sync": True, "torch.rpc_async": False, "torch.remote": False, "torch.to_here": True}  # blocks
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
    entries += _family(_MPI_CREATION, needs=Needs.ALL) + _family("Idup Idup_with_info", needs=Needs.ALL, blocks=False)
    for needs, names in _TORCH_COLLECTIVES.items():
        rooted = needs in (Needs.FROM_ROOT, Needs.TO_ROOT)
        entries += [(f"torch.{name}", {"needs": needs, "rooted": rooted}) for name in names.split()]
    for family, names in _POINT_TO_POINT.items():
        for name in names.split():
            later = name.lower().startswith(("i", "torch.i")) or name.endswith("_init") or name in _RETURNS_AT_ONCE
            buffers = family in (Family.SEND, Family.EXCHANGE) and name not in _SYNCHRONOUS
            entries.append((name, {"family": family, "may_buffer": buffers, "blocks": not later}))
    entries += _entries_of_windows_and_files() + _entries_between_sides()
    entries += [(f"torch.{name}", {"family": Family.STORE}) for name in STORE_CALLS]
    entries += [(name, {"family": Family.ACCESS, "blocks": False}) for name in WINDOW_ACCESSES]
    entries += [(name, {"needs": Needs.ALL}) for name in _RPC_MEETINGS]
    entries += [(name, {"family": Family.REMOTE, "blocks": blocks}) for name, blocks in _RPC_CALLS.items()]
    return [*entries, (MPI_INIT, {"needs": Needs.ALL})]


def _entries_of_windows_and_files() -> list[tuple[str, dict[str, object]]]:
    entries: list[tuple[str, dict[str, object]]] = []
    entries += [(name, {"needs": Needs.ALL}) for name in (*WINDOW_CREATIONS, *FILE_CREATIONS)]
    entries += [(name, {"may_return_early": True}) for name in (*WINDOW_COLLECTIVES, *FILE_COLLECTIVES)]
    entries += [(name, {"may_return_early": True, "blocks": False}) for name in FILE_POSTINGS]
    # Only Wait must not return before its partners have done their part: where others wait is the library's affair.
    for name in EPOCH_CALLS:
        needs = Needs.ALL if name == "Win.Wait" else Needs.UNKNOWN
        entries.append((name, {"family": Family.EPOCH, "needs": needs, "blocks": name != "Win.Post"}))
    return entries + [(name, {"family": Family.LOCK}) for name in LOCK_CALLS]


def _entries_between_sides() -> list[tuple[str, dict[str, object]]]:
    entries = _family(_MPI_BRIDGES, needs=Needs.ALL)
    entries += [(name, {"needs": Needs.ALL, "rooted": True}) for name in MEETINGS_OF_JOBS]
    entries.append(("Disconnect", {"may_return_early": True}))
    entries.append((CREATE_INTERCOMM_OF_LEADERS, {"needs": Needs.ALL}))
    return [*entries, (CREATE_INTERCOMM_OF_LEADER, {"family": Family.WAIT})]


def _table() -> tuple[Operation, ...]:
    operations = []
    for code, (name, facts) in enumerate(_entries(), start=1):
        usual = {"family": Family.COLLECTIVE, "checks_first": _checks_first(name)}
        operations.append(Operation(code, name, **{**usual, **facts}))  # type: ignore[arg-type]
    return tuple(operations)


def _checks_first(name: str) -> bool:
    """Say whether a call that moves plain data looks at its arguments before it sends any.

    One that moves objects may raise while it puts together what has come, or in a reduction that is a function of
    Python. Functions of torch that start or make groups have met the others before they raise.
    """
    if name.startswith("torch."):
        return "object" not in name and "init" not in name and not name.endswith(("group", "shutdown"))
    return name[0].isupper()


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
    >>> shown_name(CREATE_INTERCOMM_OF_LEADER)
    'Create_intercomm'
    """
    return name.removeprefix("torch.").removesuffix(_LEADER_SUFFIX).removesuffix(_LEADERS_SUFFIX)
