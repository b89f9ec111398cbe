"""How to read the arguments of mpi4py's collectives: what must be equal on all members of the communicator.

READERS is the table: operation -> the method that reads its arguments. A method gets the arguments just as the user
gave them, the communicator first, under the names that mpi4py has for them, and raises TypeError if they do not fit.
How the readers are put to use is in mpi_collectives.py.
"""

# ruff: noqa: D102 (the methods are entries of a table: each is named after the operation whose arguments it reads)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from paceline.guard.rank.buffer_size import UNKNOWN_SIZE, Size, dtype_only
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.mpi.mpi_constants import MpiConstants
from paceline.guard.shared_memory.layout import NOTHING

# root as the user wrote it (NOTHING if the operation has none), code of the reduction (0: none), size
MpiCollectiveArguments = tuple[Any, int, Size]


class CollectiveReader:
    """Reads the arguments of collectives for one mpi4py."""

    __slots__ = ("_in_place", "_reduction", "_size")

    def __init__(self, mpi: Any, buffers: Buffers, constants: MpiConstants) -> None:
        self._size: Callable[[Any], Size] = buffers.size
        self._reduction = constants.reduction
        self._in_place = mpi.IN_PLACE

    def read_sizes_by(self, size: Callable[[Any], Size]) -> None:
        """Read what buffers hold by another function from now on."""
        self._size = size

    # Nothing to compare but the operation itself.

    def barrier(self, comm: Any, info: Any = None) -> MpiCollectiveArguments:
        return NOTHING, 0, UNKNOWN_SIZE

    def nothing(self, comm: Any, *args: Any, **named: Any) -> MpiCollectiveArguments:
        return NOTHING, 0, UNKNOWN_SIZE

    # Buffers of one size on all members. With IN_PLACE the other buffer says the size.

    def bcast(self, comm: Any, buf: Any, root: Any = 0, **_: Any) -> MpiCollectiveArguments:
        return root, 0, self._size(buf)

    def allreduce(
        self, comm: Any, sendbuf: Any, recvbuf: Any, op: Any = None, info: Any = None
    ) -> MpiCollectiveArguments:
        return NOTHING, self._reduction(op), self._size(recvbuf if sendbuf is self._in_place else sendbuf)

    def reduce(
        self, comm: Any, sendbuf: Any, recvbuf: Any, op: Any = None, root: Any = 0, **_: Any
    ) -> MpiCollectiveArguments:
        return root, self._reduction(op), self._size(recvbuf if sendbuf is self._in_place else sendbuf)

    # One buffer holds a block for each member: what must be equal is the block.

    def gather(self, comm: Any, sendbuf: Any, recvbuf: Any, root: Any = 0, **_: Any) -> MpiCollectiveArguments:
        return root, 0, self._block_size(recvbuf, comm) if sendbuf is self._in_place else self._size(sendbuf)

    def allgather(self, comm: Any, sendbuf: Any, recvbuf: Any, **_: Any) -> MpiCollectiveArguments:
        return NOTHING, 0, self._block_size(recvbuf, comm) if sendbuf is self._in_place else self._size(sendbuf)

    def scatter(self, comm: Any, sendbuf: Any, recvbuf: Any, root: Any = 0, **_: Any) -> MpiCollectiveArguments:
        return root, 0, self._block_size(sendbuf, comm) if comm.Get_rank() == root else self._size(recvbuf)

    def alltoall(self, comm: Any, sendbuf: Any, recvbuf: Any, **_: Any) -> MpiCollectiveArguments:
        return NOTHING, 0, self._block_size(recvbuf if sendbuf is self._in_place else sendbuf, comm)

    def reduce_scatter_block(
        self, comm: Any, sendbuf: Any, recvbuf: Any, op: Any = None, **_: Any
    ) -> MpiCollectiveArguments:
        return NOTHING, self._reduction(op), UNKNOWN_SIZE if sendbuf is self._in_place else self._size(recvbuf)

    # Each member has a size of its own: what must be equal is the element type.

    def gatherv(self, comm: Any, sendbuf: Any, recvbuf: Any, root: Any = 0, **_: Any) -> MpiCollectiveArguments:
        return root, 0, UNKNOWN_SIZE if comm.Get_rank() == root else dtype_only(self._size(sendbuf))

    def scatterv(self, comm: Any, sendbuf: Any, recvbuf: Any, root: Any = 0, **_: Any) -> MpiCollectiveArguments:
        return root, 0, dtype_only(self._size(sendbuf if comm.Get_rank() == root else recvbuf))

    def allgatherv(self, comm: Any, sendbuf: Any, recvbuf: Any, **_: Any) -> MpiCollectiveArguments:
        return NOTHING, 0, dtype_only(self._size(recvbuf if sendbuf is self._in_place else sendbuf))

    def reduce_scatter(
        self, comm: Any, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Any = None, **_: Any
    ) -> MpiCollectiveArguments:
        # the send buffer holds the parts of all members, so its size is the same everywhere
        return NOTHING, self._reduction(op), UNKNOWN_SIZE if sendbuf is self._in_place else self._size(sendbuf)

    # Pickled objects may have any size.

    def bcast_object(self, comm: Any, obj: Any = None, root: Any = 0, **_: Any) -> MpiCollectiveArguments:
        return root, 0, UNKNOWN_SIZE

    def rooted_object(self, comm: Any, sendobj: Any, root: Any = 0) -> MpiCollectiveArguments:
        return root, 0, UNKNOWN_SIZE

    def allreduce_object(self, comm: Any, sendobj: Any, op: Any = None) -> MpiCollectiveArguments:
        return NOTHING, self._reduction(op), UNKNOWN_SIZE

    def reduce_object(self, comm: Any, sendobj: Any, op: Any = None, root: Any = 0) -> MpiCollectiveArguments:
        return root, self._reduction(op), UNKNOWN_SIZE

    def _block_size(self, spec: Any, comm: Any) -> Size:
        """Return what one member gets of a buffer for all; a count that is given in the argument is for one already."""
        dtype, num_bytes, count = size = self._size(spec)
        if isinstance(spec, list | tuple) and len(spec) > 2:
            return size
        members = comm.Get_size()
        return dtype, num_bytes // members if num_bytes >= 0 else -1, count // members if count >= 0 else -1


READERS: dict[str, Callable[..., MpiCollectiveArguments]] = {
    "Barrier": CollectiveReader.barrier,
    "Bcast": CollectiveReader.bcast,
    "Reduce": CollectiveReader.reduce,
    "Allreduce": CollectiveReader.allreduce,
    "Scan": CollectiveReader.allreduce,
    "Exscan": CollectiveReader.allreduce,
    "Gather": CollectiveReader.gather,
    "Gatherv": CollectiveReader.gatherv,
    "Allgather": CollectiveReader.allgather,
    "Allgatherv": CollectiveReader.allgatherv,
    "Scatter": CollectiveReader.scatter,
    "Scatterv": CollectiveReader.scatterv,
    "Alltoall": CollectiveReader.alltoall,
    "Alltoallv": CollectiveReader.nothing,
    "Alltoallw": CollectiveReader.nothing,
    "Reduce_scatter": CollectiveReader.reduce_scatter,
    "Reduce_scatter_block": CollectiveReader.reduce_scatter_block,
    "Neighbor_allgather": CollectiveReader.nothing,
    "Neighbor_allgatherv": CollectiveReader.nothing,
    "Neighbor_alltoall": CollectiveReader.nothing,
    "Neighbor_alltoallv": CollectiveReader.nothing,
    "Neighbor_alltoallw": CollectiveReader.nothing,
    "barrier": CollectiveReader.barrier,
    "bcast": CollectiveReader.bcast_object,
    "reduce": CollectiveReader.reduce_object,
    "allreduce": CollectiveReader.allreduce_object,
    "scan": CollectiveReader.allreduce_object,
    "exscan": CollectiveReader.allreduce_object,
    "gather": CollectiveReader.rooted_object,
    "allgather": CollectiveReader.nothing,
    "scatter": CollectiveReader.rooted_object,
    "alltoall": CollectiveReader.nothing,
    "neighbor_allgather": CollectiveReader.nothing,
    "neighbor_alltoall": CollectiveReader.nothing,
}


class Places(NamedTuple):
    """Where a plain call has the arguments that are read, the communicator being the first. Compiled code reads these.

    `other_buffer` counts where `buffer` is IN_PLACE; -1 for what there is none of. A plain call has from `least` to
    `most` arguments, and gives at most its reduction and its root by name. All others are left to the reader.
    """

    buffer: int = -1
    other_buffer: int = -1
    reduction: int = -1
    root: int = -1
    least: int = 1
    most: int = 1


_ANY_NUMBER = 99
# by the name of the reader's method; where there is none, the reader is asked every time
PLACES: dict[str, Places] = {
    "barrier": Places(),
    "nothing": Places(most=_ANY_NUMBER),
    "bcast": Places(buffer=1, root=2, least=2, most=3),
    "allreduce": Places(buffer=1, other_buffer=2, reduction=3, least=3, most=4),
    "reduce": Places(buffer=1, other_buffer=2, reduction=3, root=4, least=3, most=5),
    "gather": Places(buffer=1, root=3, least=3, most=4),
    "allgather": Places(buffer=1, least=3, most=3),
    "bcast_object": Places(root=2, most=3),
    "rooted_object": Places(root=2, least=2, most=3),
    "allreduce_object": Places(reduction=2, least=2, most=3),
    "reduce_object": Places(reduction=2, root=3, least=2, most=4),
}
