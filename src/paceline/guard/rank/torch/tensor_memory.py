"""Which memory the tensors of torch.distributed's calls stand for. A tensor itself counts how often it was written to.

COLLECTIVES is the table: function -> the method that says what it reads and writes. A method gets the arguments just as
the user gave them, under torch's names.
"""

# ruff: noqa: D102 (the methods are entries of a table: each is named after the functions whose arguments it reads)

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from paceline.guard.rank.remarks.active_buffers import ActiveBuffers, UsedMemory
from paceline.guard.rank.torch.torch_module import TorchWatch, member_number

_UNREADABLE = (TypeError, ValueError, AttributeError, RuntimeError, NotImplementedError)
_Memories = tuple[UsedMemory | None, ...]


class TensorMemory(UsedMemory):
    """The memory of a tensor."""

    __slots__ = ("_counts", "_tensor", "_version")

    def __init__(self, tensor: Any, *, writes: bool, counts: bool = True) -> None:
        """Take a tensor; without `counts` the call itself writes to it in a way that the tensor counts."""
        super().__init__(tensor.data_ptr(), tensor.numel() * tensor.element_size(), writes=writes)
        self._tensor, self._counts = tensor, counts
        self._version: int | None = None

    def mark(self) -> None:
        """Remember how often it was written to."""
        try:
            self._version = self._tensor._version if self._counts else None
        except RuntimeError:  # a tensor of inference mode does not count
            self._version = None

    def has_changed(self) -> bool:
        """Say whether it was written to; not if that may have been in a part of its storage that is not sent."""
        tensor = self._tensor
        if self._version is None or self._version == tensor._version:
            return False
        num_bytes = self.end - self.begin
        return bool(tensor.device.type == "cpu" and tensor.untyped_storage().nbytes() == num_bytes)

    def is_dense(self) -> bool:
        """Say whether the tensor has no gaps."""
        return bool(self._tensor.is_contiguous())


class TensorMemoryReader:
    """Says which memory arguments stand for, for one torch.distributed."""

    def __init__(self, watch: TorchWatch) -> None:
        self._watch = watch

    def of(self, tensor: Any, *, writes: bool, counts: bool = True) -> UsedMemory | None:
        """Return the memory of a tensor; None if it holds nothing, or is not known."""
        try:
            memory = TensorMemory(tensor, writes=writes, counts=counts)
        except _UNREADABLE:  # a sparse tensor, or one without memory of its own
            return None
        return memory if memory.begin and memory.end > memory.begin else None

    def of_collective(self, name: str) -> Callable[..., _Memories] | None:
        """Return what says which memory a function uses; None if nothing does."""
        method = COLLECTIVES.get(name)
        if method is None:
            return None

        def read(*args: Any, **named: Any) -> _Memories:
            try:
                return method(self, *args, **named)
            except _UNREADABLE:
                return ()

        return read

    def _is_root(self, group: Any, rank: Any, group_rank: Any) -> bool:
        communicator = self._watch.communicator(group)
        return communicator is not None and member_number(communicator, rank, group_rank) == communicator.member

    def _moved(self, sources: Iterable[Any], targets: Iterable[Any]) -> _Memories:
        """Return the memory of a call that reads tensors and writes to others, perhaps to the same ones."""
        written = [self.of(tensor, writes=True, counts=False) for tensor in targets]
        read = [self.of(tensor, writes=False) for tensor in sources]
        known = [one for one in written if one is not None]
        apart = [one for one in read if one is None or all(one.end <= to.begin or to.end <= one.begin for to in known)]
        return (*apart, *written)

    # One tensor, which is not copied: gloo works on its memory.

    def all_reduce(self, tensor: Any, *args: Any, **_: Any) -> _Memories:
        return (self.of(tensor, writes=True),)

    def broadcast(
        self, tensor: Any, src: Any = None, group: Any = None, async_op: bool = False, group_src: Any = None
    ) -> _Memories:
        return (self.of(tensor, writes=not self._is_root(group, src, group_src)),)

    def reduce(
        self, tensor: Any, dst: Any = None, op: Any = None, group: Any = None, async_op: bool = False,
        group_dst: Any = None,
    ) -> _Memories:  # fmt: skip
        is_root = self._is_root(group, dst, group_dst)
        return (self.of(tensor, writes=is_root, counts=is_root),)

    # From some tensors to others.

    def all_gather_into_tensor(self, output_tensor: Any, input_tensor: Any, *args: Any, **_: Any) -> _Memories:
        return self._moved([input_tensor], [output_tensor])

    def into_tensor(self, output: Any, input: Any, *args: Any, **_: Any) -> _Memories:
        return self._moved([input], [output])

    def all_gather(self, tensor_list: Any, tensor: Any, *args: Any, **_: Any) -> _Memories:
        return self._moved([tensor], tensor_list)

    def reduce_scatter(self, output: Any, input_list: Any, *args: Any, **_: Any) -> _Memories:
        return self._moved(input_list, [output])

    def all_to_all(self, output_tensor_list: Any, input_tensor_list: Any, *args: Any, **_: Any) -> _Memories:
        return self._moved(input_tensor_list, output_tensor_list)

    def gather(
        self, tensor: Any, gather_list: Any = None, dst: Any = None, group: Any = None, async_op: bool = False,
        group_dst: Any = None,
    ) -> _Memories:  # fmt: skip
        return self._moved([tensor], gather_list or () if self._is_root(group, dst, group_dst) else ())

    def scatter(
        self, tensor: Any, scatter_list: Any = None, src: Any = None, group: Any = None, async_op: bool = False,
        group_src: Any = None,
    ) -> _Memories:  # fmt: skip
        return self._moved(scatter_list or () if self._is_root(group, src, group_src) else (), [tensor])


COLLECTIVES: dict[str, Callable[..., _Memories]] = {
    "all_reduce": TensorMemoryReader.all_reduce,
    "broadcast": TensorMemoryReader.broadcast,
    "reduce": TensorMemoryReader.reduce,
    "all_gather": TensorMemoryReader.all_gather,
    **dict.fromkeys(
        ("all_gather_into_tensor", "all_gather_single", "_all_gather_base"), TensorMemoryReader.all_gather_into_tensor
    ),
    **dict.fromkeys(
        ("all_to_all_single", "reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base"),
        TensorMemoryReader.into_tensor,
    ),
    "reduce_scatter": TensorMemoryReader.reduce_scatter,
    "all_to_all": TensorMemoryReader.all_to_all,
    "gather": TensorMemoryReader.gather,
    "scatter": TensorMemoryReader.scatter,
}


def look_at_uses(watch: TorchWatch, active: ActiveBuffers) -> None:
    """Compare calls that block with the memory that works write to, while there are such works."""
    plain = watch.size

    def size(tensor: Any) -> tuple[int, int, int]:
        found = plain(tensor)
        if found[1] > 0:
            try:
                begin = tensor.data_ptr() if tensor.is_contiguous() else 0
            except _UNREADABLE:
                begin = 0
            if begin:
                active.note_use(begin, found[1])
        return found

    def arm(on: bool) -> None:
        watch.read_sizes_by(size if on else plain)

    active.on_writing.append(arm)
