"""Watches the collectives of mpi4py: what must be equal on all members, and the calls themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.mpi.lookalike import named_like
from paceline.guard.rank.mpi.mpi_buffers import UNKNOWN, Size, whole
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.mpi_requests import Posted
from paceline.guard.rank.watched_process import SESSION, Posting
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.operations import BY_NAME

_USUAL_ROOTS = 1 << 31
Facts = Callable[..., tuple[int, int, Size]]  # (communicator, *args) -> root, reduction, size


def watched_collectives(base: Any, watch: MpiWatch) -> dict[str, Any]:
    """Return the watched forms of a class's collectives: blocking, started, persistent."""
    members = {}
    for name, facts in _collectives(watch).items():
        if not hasattr(base, name):
            continue  # only graphs and grids have neighbours
        members[name] = _collective(getattr(base, name), BY_NAME[name].code, facts)
        for later in (f"I{name.lower()}", f"{name}_init"):
            if name[0].isupper() and hasattr(base, later):
                members[later] = _posted_collective(getattr(base, later), BY_NAME[later].code, facts, watch)
    return members


def _collectives(watch: MpiWatch) -> dict[str, Facts]:
    size, dtype_only, reduction = watch.buffers.size, watch.buffers.dtype_only, watch.reduction
    in_place, plus, plus_code = watch.mpi.IN_PLACE, watch.mpi.SUM, watch.reduction(watch.mpi.SUM)

    def nothing(comm: Communicator, *args: Any, **named: Any) -> tuple[int, int, Size]:
        return NOTHING, 0, UNKNOWN

    def reduced(
        comm: Communicator, sendbuf: Any, recvbuf: Any, op: Any = plus, info: Any = None
    ) -> tuple[int, int, Size]:
        code = plus_code if op is plus else reduction(op)
        return NOTHING, code, size(recvbuf if sendbuf is in_place else sendbuf)

    def reduced_to(
        comm: Communicator, sendbuf: Any, recvbuf: Any, op: Any = plus, root: int = 0, **_: Any
    ) -> tuple[int, int, Size]:
        return root, reduction(op), size(recvbuf if sendbuf is in_place else sendbuf)

    def from_root(comm: Communicator, buf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        return root, 0, size(buf)

    def gathered(comm: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        return root, 0, _block(recvbuf, size(recvbuf), comm) if sendbuf is in_place else size(sendbuf)

    def all_gathered(comm: Communicator, sendbuf: Any, recvbuf: Any, **_: Any) -> tuple[int, int, Size]:
        return NOTHING, 0, _block(recvbuf, size(recvbuf), comm) if sendbuf is in_place else size(sendbuf)

    def scattered(comm: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        at_root = comm.member == root
        return root, 0, _block(sendbuf, size(sendbuf), comm) if at_root else size(recvbuf)

    def exchanged(comm: Communicator, sendbuf: Any, recvbuf: Any, **_: Any) -> tuple[int, int, Size]:
        spec = recvbuf if sendbuf is in_place else sendbuf
        return NOTHING, 0, _block(spec, size(spec), comm)

    def shared_out(comm: Communicator, sendbuf: Any, recvbuf: Any, op: Any = plus, **_: Any) -> tuple[int, int, Size]:
        return NOTHING, reduction(op), size(recvbuf) if sendbuf is not in_place else UNKNOWN

    def uneven_to(comm: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        if comm.member == root:
            return root, 0, UNKNOWN
        return root, 0, dtype_only(sendbuf)

    def uneven_from(comm: Communicator, sendbuf: Any, recvbuf: Any, root: int = 0, **_: Any) -> tuple[int, int, Size]:
        return root, 0, dtype_only(sendbuf) if comm.member == root else dtype_only(recvbuf)

    def uneven(comm: Communicator, sendbuf: Any, recvbuf: Any, **_: Any) -> tuple[int, int, Size]:
        return NOTHING, 0, dtype_only(recvbuf if sendbuf is in_place else sendbuf)

    def uneven_reduced(
        comm: Communicator, sendbuf: Any, recvbuf: Any, recvcounts: Any = None, op: Any = plus, **_: Any
    ) -> tuple[int, int, Size]:
        return NOTHING, reduction(op), size(sendbuf) if sendbuf is not in_place else UNKNOWN

    def object_to(comm: Communicator, sendobj: Any, root: int = 0) -> tuple[int, int, Size]:
        return root, 0, UNKNOWN

    def object_reduced(comm: Communicator, sendobj: Any, op: Any = plus) -> tuple[int, int, Size]:
        return NOTHING, reduction(op), UNKNOWN

    def object_reduced_to(comm: Communicator, sendobj: Any, op: Any = plus, root: int = 0) -> tuple[int, int, Size]:
        return root, reduction(op), UNKNOWN

    def object_from(comm: Communicator, obj: Any = None, root: int = 0, **named: Any) -> tuple[int, int, Size]:
        return root, 0, UNKNOWN

    return {
        "Barrier": nothing, "barrier": nothing, "Allreduce": reduced, "Scan": reduced, "Exscan": reduced,
        "Reduce": reduced_to, "Bcast": from_root, "Gather": gathered, "Allgather": all_gathered,
        "Scatter": scattered, "Alltoall": exchanged, "Reduce_scatter_block": shared_out, "Gatherv": uneven_to,
        "Scatterv": uneven_from, "Allgatherv": uneven, "Alltoallv": uneven, "Alltoallw": nothing,
        "Reduce_scatter": uneven_reduced, "bcast": object_from, "gather": object_to, "scatter": object_to,
        "allgather": nothing, "alltoall": nothing, "reduce": object_reduced_to, "allreduce": object_reduced,
        "scan": object_reduced, "exscan": object_reduced, "Neighbor_allgather": nothing,
        "Neighbor_allgatherv": nothing, "Neighbor_alltoall": nothing, "Neighbor_alltoallv": nothing,
        "Neighbor_alltoallw": nothing, "neighbor_allgather": nothing, "neighbor_alltoall": nothing,
    }  # fmt: skip


def _block(spec: Any, size: Size, comm: Communicator) -> Size:
    """Return what one member gets of a buffer for all; a count that is given in the argument is for one already."""
    if isinstance(spec, list | tuple) and len(spec) > 2:
        return size
    dtype, num_bytes, count = size
    num = len(comm.ranks)
    return dtype, num_bytes // num if num_bytes >= 0 else -1, count // num if count >= 0 else -1


def _collective(base: Any, code: int, facts: Facts) -> Any:
    if base.__name__ in ("Barrier", "barrier"):
        return _barrier(base, code)

    def call(self: Any, *args: Any, **named: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return base(self, *args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = facts(comm, *args, **named)
            if root.__class__ is not int or not -1 <= root < _USUAL_ROOTS:
                root = whole(root)
        except TypeError:  # wrong arguments: mpi4py says so better
            return base(self, *args, **named)
        number = recorder.begin_collective(comm, code, root, reduction, dtype, num_bytes, count)
        try:
            return base(self, *args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(number)

    return named_like(call, base)


def _barrier(base: Any, code: int) -> Any:
    """The call that is made most often has nothing to compare."""

    def call(self: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return base(self)
        number = recorder.begin_collective(comm, code)
        try:
            return base(self)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(number)

    return named_like(call, base)


def _posted_collective(base: Any, code: int, facts: Facts, watch: MpiWatch) -> Any:
    persistent = base.__name__.endswith("_init")
    flags = layout.NONBLOCKING

    def call(self: Any, *args: Any, **named: Any) -> Any:
        comm, recorder = self._paceline, SESSION.recorder
        if comm is None or recorder is None:
            return base(self, *args, **named)
        try:
            root, reduction, (dtype, num_bytes, count) = facts(comm, *args, **named)
            root = whole(root)
        except TypeError:
            return base(self, *args, **named)
        request = recorder.requests.take()
        number = recorder.begin_collective(
            comm, code, root=root, reduction=reduction, dtype=dtype, num_bytes=num_bytes, count=count,
            flags=flags, request=request,
        )  # fmt: skip
        with Posting(recorder, number, request, active=not persistent):
            made = base(self, *args, **named)
        return watch.requests.wrap(made, Posted(recorder=recorder, request=request, record=number))

    return named_like(call, base)
