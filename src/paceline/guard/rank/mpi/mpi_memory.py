"""Which memory the arguments of mpi4py's calls stand for, and samples of what it holds.

Only what is certain is told: of a datatype with gaps, of counts by rank and of memory of a device nothing is known.
COLLECTIVES is the table: operation -> the method that says what it reads and writes. A method gets the arguments just
as the user gave them, the communicator first, under the names that mpi4py has for them.
"""

# ruff: noqa: D102 (the methods are entries of a table: each is named after the operations whose arguments it reads)

from __future__ import annotations

import binascii
import sys
from array import array
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.buffer_size import Size
from paceline.guard.rank.mpi.mpi_buffers import Buffers
from paceline.guard.rank.mpi.replaced_methods import own_method
from paceline.guard.rank.remarks.active_buffers import ActiveBuffers, UsedMemory

_SAMPLED_WHOLE = 2048  # bytes; of more than that a sample is taken
_NUM_SAMPLES, _SAMPLE_BYTES = 8, 256
# mpi4py 4.1 does not keep what these reduce, as it does for other requests
_REDUCTIONS = ("Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Exscan")
_UNREADABLE = (TypeError, ValueError, BufferError, AttributeError, ArithmeticError)
_Memories = tuple[UsedMemory | None, ...]


class _Holder:
    """Holds one object, as a view holds the array that it shows."""

    __slots__ = ("obj",)

    def __init__(self) -> None:
        self.obj = object()


def _num_references(holder: Any, name: str) -> int:
    return sys.getrefcount(getattr(holder, name))


_HELD_ONCE = _num_references(_Holder(), "obj")  # for what its holder alone refers to; Pythons count differently


def is_sole_holder(view: Any) -> bool:
    """Say whether the memory of an array would be freed but for this view of it.

    An array may be a part of another, which then owns the memory. What else may own memory is not known.
    """
    holder, name = view, "obj"
    while _num_references(holder, name) <= _HELD_ONCE:
        holder = getattr(holder, name)
        if not hasattr(holder, "flags") or not hasattr(holder, "base"):
            return False
        if holder.base is None:
            return bool(holder.flags.owndata)
        name = "base"
    return False


class HostMemory(UsedMemory):
    """Memory of this process, held by mpi4py's own kind of view: whatever its user does, it can be read."""

    __slots__ = ("_held", "_sample", "is_kept")

    def __init__(self, held: Any, num_bytes: int, *, writes: bool) -> None:
        # what the class above does, written out: this is a part of every Isend
        self.begin = begin = held.address
        self.end, self.writes, self._held = begin + num_bytes, writes, held
        self.number = self.request = 0
        self.is_told, self.uses, self.is_kept = False, None, True
        self._sample: bytes | None = None

    def mark(self) -> None:
        """Take a sample."""
        if not self.writes:
            self._sample = self._take_sample()

    def has_changed(self) -> bool:
        """Say whether a sample that is taken now is another."""
        return self._sample is not None and self._sample != self._take_sample()

    def content(self) -> int:
        """Return a checksum of the sample, which is never 0."""
        return 0 if self._sample is None else binascii.crc32(self._sample) + 1

    def was_dropped(self) -> bool:
        """Say whether nobody but us has kept the memory for the request."""
        return not self.is_kept and is_sole_holder(self._held)

    def _take_sample(self) -> bytes:
        """Return all bytes, or some from places that are evenly spread, the first and the last among them."""
        held, num_bytes = self._held, self.end - self.begin
        if num_bytes <= _SAMPLED_WHOLE:
            return bytes(held[:num_bytes].tobytes())
        last = num_bytes - _SAMPLE_BYTES
        starts = [last * part // (_NUM_SAMPLES - 1) for part in range(_NUM_SAMPLES)]
        return b"".join([held[start : start + _SAMPLE_BYTES].tobytes() for start in starts])


class UncomparedMemory(HostMemory):
    """The same without samples: what it holds is not compared."""

    __slots__ = ()

    def mark(self) -> None:
        """Take no sample."""


class MemoryReader:
    """Says which memory arguments stand for, for one mpi4py."""

    def __init__(self, mpi: Any, buffers: Buffers, *, compares: bool) -> None:
        self._buffers, self._datatype = buffers, mpi.Datatype
        self._view = mpi.buffer if hasattr(mpi, "buffer") else mpi.memory  # mpi4py 3 has it by another name
        self._in_place, self._bottom = mpi.IN_PLACE, mpi.BOTTOM
        self._kind = HostMemory if compares else UncomparedMemory
        self._start_reduction, self._self = own_method(mpi.Comm, "Iallreduce"), mpi.COMM_SELF
        self._keeps_reductions: bool | None = None  # not tried yet

    def of(self, spec: Any, size: Size, *, writes: bool) -> UsedMemory | None:
        """Return the memory of a buffer argument of this size; None if it holds nothing, or is not known."""
        try:
            found = self._find(spec, size[1])
            return None if found is None else self._kind(*found, writes=writes)
        except _UNREADABLE:
            return None

    def note_use(self, active: ActiveBuffers, spec: Any, size: Size) -> None:
        """Note that a call is about to use a buffer argument."""
        try:
            found = self._find(spec, size[1])
        except _UNREADABLE:
            return
        if found is not None:
            active.note_use(found[0].address, found[1])

    def _find(self, spec: Any, num_bytes: int) -> tuple[Any, int] | None:
        if num_bytes <= 0:
            return None
        if self._buffers.is_array(spec):  # nearly always: kept short
            return self._view(spec), num_bytes
        if spec is None or spec is self._in_place or spec is self._bottom:
            return None
        data = spec
        if isinstance(spec, list | tuple):
            data = spec[0]
            if any(isinstance(part, self._datatype) and not part.is_predefined for part in spec[1:]):
                return None  # it may have gaps
        if not self._buffers.is_array(data):
            memoryview(data).release()  # raises for memory of a device, which must not be read
        view = self._view(data)
        return (view, num_bytes) if view.nbytes >= num_bytes else None

    # What collectives read and write.

    def _both(self, sendbuf: Any, recvbuf: Any) -> _Memories:
        return self._read(sendbuf), self._written(recvbuf)

    def _read(self, spec: Any) -> UsedMemory | None:
        return self.of(spec, self._buffers.size(spec), writes=False)

    def _written(self, spec: Any) -> UsedMemory | None:
        return self.of(spec, self._buffers.size(spec), writes=True)

    def bcast(self, comm: Any, buf: Any, root: Any = 0, **_: Any) -> _Memories:
        return (self._read(buf) if comm.Get_rank() == root else self._written(buf),)

    def symmetric(self, comm: Any, sendbuf: Any, recvbuf: Any, *args: Any, **_: Any) -> _Memories:
        return self._both(sendbuf, recvbuf)

    def reduce(self, comm: Any, sendbuf: Any, recvbuf: Any, op: Any = None, root: Any = 0, **_: Any) -> _Memories:
        return self._both(sendbuf, recvbuf if comm.Get_rank() == root else None)

    def gather(self, comm: Any, sendbuf: Any, recvbuf: Any, root: Any = 0, **_: Any) -> _Memories:
        return self._both(sendbuf, recvbuf if comm.Get_rank() == root else None)

    def scatter(self, comm: Any, sendbuf: Any, recvbuf: Any, root: Any = 0, **_: Any) -> _Memories:
        return self._both(sendbuf if comm.Get_rank() == root else None, recvbuf)

    def gatherv(self, comm: Any, sendbuf: Any, recvbuf: Any, *args: Any, **_: Any) -> _Memories:
        return (self._read(sendbuf),)  # where the parts of others go is said by tables

    def scatterv(self, comm: Any, sendbuf: Any, recvbuf: Any, *args: Any, **_: Any) -> _Memories:
        return (self._written(recvbuf),)

    def of_collective(self, name: str) -> Callable[..., _Memories] | None:
        """Return what says which memory a collective uses, by the name of its blocking form; None if nothing does."""
        method = COLLECTIVES.get(name)
        if method is None:
            return None

        def read(*args: Any, **named: Any) -> _Memories:
            try:
                return method(self, *args, **named)
            except _UNREADABLE:
                return ()

        def read_of_reduction(*args: Any, **named: Any) -> _Memories:
            memories = read(*args, **named)
            for memory in memories:
                if isinstance(memory, HostMemory):
                    memory.is_kept = self._reductions_are_kept()
            return memories

        return read_of_reduction if name in _REDUCTIONS else read

    def _reductions_are_kept(self) -> bool:
        """Say whether mpi4py keeps what a reduction uses until it has completed: one of this process alone shows it."""
        if self._keeps_reductions is None:
            mine, total = array("d", [0.0]), array("d", [0.0])
            before = sys.getrefcount(mine)
            request = self._start_reduction(self._self, mine, total)
            self._keeps_reductions = sys.getrefcount(mine) > before
            request.Wait()
        return self._keeps_reductions


COLLECTIVES: dict[str, Callable[..., _Memories]] = {
    "Bcast": MemoryReader.bcast,
    "Reduce": MemoryReader.reduce,
    **dict.fromkeys(
        ("Allreduce", "Scan", "Exscan", "Allgather", "Alltoall", "Reduce_scatter_block", "Reduce_scatter"),
        MemoryReader.symmetric,
    ),
    "Gather": MemoryReader.gather,
    "Scatter": MemoryReader.scatter,
    **dict.fromkeys(("Gatherv", "Allgatherv"), MemoryReader.gatherv),
    "Scatterv": MemoryReader.scatterv,
}
