"""How to read the arguments of torch.distributed's collectives: what must be equal on all members of the group.

READERS is the table: function -> the method that reads its arguments. A method gets the arguments just as the user
gave them, under torch's names, and raises TypeError or AttributeError if they do not fit. How the readers are put to
use is in torch_collectives.py.
"""

# ruff: noqa: D102 (the methods are entries of a table: each is named after the operation whose arguments it reads)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from paceline.guard.rank.buffer_size import UNKNOWN_SIZE, Size, dtype_only, sum_sizes
from paceline.guard.rank.torch.torch_module import TorchWatch, member_number
from paceline.guard.shared_memory.layout import NOTHING, OWN_TIMEOUT

# group, root (NOTHING if the function has none), code of the reduction (0: none), size, returns a work, flags
TorchCollectiveArguments = tuple[Any, int, int, Size, bool, int]


class TorchCollectiveReader:
    """Reads the arguments of collectives for one torch.distributed."""

    __slots__ = ("_communicator", "_reduction", "_size")

    def __init__(self, watch: TorchWatch) -> None:
        self._size: Callable[[Any], Size] = watch.size
        self._reduction, self._communicator = watch.reduction, watch.communicator
        watch.on_other_sizes.append(self._read_sizes_by)

    def _read_sizes_by(self, size: Callable[[Any], Size]) -> None:
        self._size = size

    def _root(self, group: Any, rank: Any, group_rank: Any) -> int:
        """Return the root's number in the group, from its rank in the job or, if given, its number there."""
        communicator = self._communicator(group)
        return NOTHING if communicator is None else member_number(communicator, rank, group_rank)

    # Nothing to compare but the operation itself.

    def barrier(
        self, group: Any = None, async_op: bool = False, device_ids: Any = None, **_: Any
    ) -> TorchCollectiveArguments:
        return group, NOTHING, 0, UNKNOWN_SIZE, async_op, 0

    def monitored_barrier(
        self, group: Any = None, timeout: Any = None, wait_all_ranks: bool = False
    ) -> TorchCollectiveArguments:
        return group, NOTHING, 0, UNKNOWN_SIZE, False, OWN_TIMEOUT

    # Tensors of one size on all members.

    def broadcast(
        self, tensor: Any, src: Any = None, group: Any = None, async_op: bool = False, group_src: Any = None
    ) -> TorchCollectiveArguments:
        return group, self._root(group, src, group_src), 0, self._size(tensor), async_op, 0

    def all_reduce(
        self, tensor: Any, op: Any = None, group: Any = None, async_op: bool = False
    ) -> TorchCollectiveArguments:
        return group, NOTHING, self._reduction(op), self._size(tensor), async_op, 0

    def all_reduce_coalesced(
        self, tensors: Any, op: Any = None, group: Any = None, async_op: bool = False
    ) -> TorchCollectiveArguments:
        return group, NOTHING, self._reduction(op), sum_sizes(map(self._size, tensors)), async_op, 0

    def reduce(
        self, tensor: Any, dst: Any = None, op: Any = None, group: Any = None, async_op: bool = False,
        group_dst: Any = None,
    ) -> TorchCollectiveArguments:  # fmt: skip
        return group, self._root(group, dst, group_dst), self._reduction(op), self._size(tensor), async_op, 0

    def gather(
        self, tensor: Any, gather_list: Any = None, dst: Any = None, group: Any = None, async_op: bool = False,
        group_dst: Any = None,
    ) -> TorchCollectiveArguments:  # fmt: skip
        return group, self._root(group, dst, group_dst), 0, self._size(tensor), async_op, 0

    def scatter(
        self, tensor: Any, scatter_list: Any = None, src: Any = None, group: Any = None, async_op: bool = False,
        group_src: Any = None,
    ) -> TorchCollectiveArguments:  # fmt: skip
        return group, self._root(group, src, group_src), 0, self._size(tensor), async_op, 0

    def all_gather_into_tensor(
        self, output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
    ) -> TorchCollectiveArguments:
        return group, NOTHING, 0, self._size(input_tensor), async_op, 0

    def all_gather_coalesced(
        self, output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
    ) -> TorchCollectiveArguments:
        return group, NOTHING, 0, sum_sizes(map(self._size, input_tensor_list)), async_op, 0

    def reduce_scatter_tensor(
        self, output: Any, input: Any, op: Any = None, group: Any = None, async_op: bool = False
    ) -> TorchCollectiveArguments:
        return group, NOTHING, self._reduction(op), self._size(output), async_op, 0

    # Each member may have sizes of its own: what must be equal is the element type.

    def all_gather(
        self, tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False
    ) -> TorchCollectiveArguments:
        size = self._size(tensor)
        uneven = len({getattr(item, "shape", None) for item in tensor_list}) > 1  # gloo takes sizes per rank
        return group, NOTHING, 0, dtype_only(size) if uneven else size, async_op, 0

    def reduce_scatter(
        self, output: Any, input_list: Any, op: Any = None, group: Any = None, async_op: bool = False
    ) -> TorchCollectiveArguments:
        return group, NOTHING, self._reduction(op), dtype_only(self._size(output)), async_op, 0

    # Types must fit by pairs. Only a member that gives something to every other must have the type of all.

    def all_to_all_single(
        self, output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None,
        group: Any = None, async_op: bool = False,
    ) -> TorchCollectiveArguments:  # fmt: skip
        size = self._size(input)
        if output_split_sizes or input_split_sizes:
            size = dtype_only(size) if all(input_split_sizes or ()) else UNKNOWN_SIZE
        return group, NOTHING, 0, size, async_op, 0

    def all_to_all(
        self, output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
    ) -> TorchCollectiveArguments:
        sizes = [self._size(tensor) for tensor in input_tensor_list]
        gives_all = all(num_bytes > 0 for _, num_bytes, _ in sizes)
        return group, NOTHING, 0, dtype_only(sum_sizes(sizes)) if gives_all else UNKNOWN_SIZE, async_op, 0

    # Pickled objects may have any size.

    def all_gather_object(self, object_list: Any, obj: Any, group: Any = None) -> TorchCollectiveArguments:
        return group, NOTHING, 0, UNKNOWN_SIZE, False, 0

    def gather_object(
        self, obj: Any, object_gather_list: Any = None, dst: Any = None, group: Any = None, group_dst: Any = None
    ) -> TorchCollectiveArguments:
        return group, self._root(group, dst, group_dst), 0, UNKNOWN_SIZE, False, 0

    def broadcast_object_list(
        self, object_list: Any, src: Any = None, group: Any = None, device: Any = None, group_src: Any = None,
        **_: Any,
    ) -> TorchCollectiveArguments:  # fmt: skip
        return group, self._root(group, src, group_src), 0, UNKNOWN_SIZE, False, 0

    def scatter_object_list(
        self,
        scatter_object_output_list: Any,
        scatter_object_input_list: Any = None,
        src: Any = None,
        group: Any = None,
        group_src: Any = None,
    ) -> TorchCollectiveArguments:
        return group, self._root(group, src, group_src), 0, UNKNOWN_SIZE, False, 0


# torch.distributed's function -> the operation that it is recorded as, and how to read its arguments
READERS: dict[str, tuple[str, Callable[..., TorchCollectiveArguments]]] = {
    "barrier": ("barrier", TorchCollectiveReader.barrier),
    "monitored_barrier": ("monitored_barrier", TorchCollectiveReader.monitored_barrier),
    "broadcast": ("broadcast", TorchCollectiveReader.broadcast),
    "all_reduce": ("all_reduce", TorchCollectiveReader.all_reduce),
    "all_reduce_coalesced": ("all_reduce_coalesced", TorchCollectiveReader.all_reduce_coalesced),
    "reduce": ("reduce", TorchCollectiveReader.reduce),
    "gather": ("gather", TorchCollectiveReader.gather),
    "scatter": ("scatter", TorchCollectiveReader.scatter),
    "all_gather": ("all_gather", TorchCollectiveReader.all_gather),
    "all_gather_into_tensor": ("all_gather_into_tensor", TorchCollectiveReader.all_gather_into_tensor),
    "all_gather_single": ("all_gather_into_tensor", TorchCollectiveReader.all_gather_into_tensor),
    "_all_gather_base": ("all_gather_into_tensor", TorchCollectiveReader.all_gather_into_tensor),
    "all_gather_coalesced": ("all_gather_coalesced", TorchCollectiveReader.all_gather_coalesced),
    "reduce_scatter": ("reduce_scatter", TorchCollectiveReader.reduce_scatter),
    "reduce_scatter_tensor": ("reduce_scatter_tensor", TorchCollectiveReader.reduce_scatter_tensor),
    "reduce_scatter_single": ("reduce_scatter_tensor", TorchCollectiveReader.reduce_scatter_tensor),
    "_reduce_scatter_base": ("reduce_scatter_tensor", TorchCollectiveReader.reduce_scatter_tensor),
    "all_to_all": ("all_to_all", TorchCollectiveReader.all_to_all),
    "all_to_all_single": ("all_to_all_single", TorchCollectiveReader.all_to_all_single),
    "all_gather_object": ("all_gather_object", TorchCollectiveReader.all_gather_object),
    "gather_object": ("gather_object", TorchCollectiveReader.gather_object),
    "broadcast_object_list": ("broadcast_object_list", TorchCollectiveReader.broadcast_object_list),
    "scatter_object_list": ("scatter_object_list", TorchCollectiveReader.scatter_object_list),
}


class TorchPlaces(NamedTuple):
    """Where a plain call has the arguments that are read, as numbers from 0. Compiled code reads these.

    -1 stands for what there is none of. A plain call gives `least` to `most` arguments without their names, its tensor
    among them, and its root as a rank of the job. All others are left to the reader.
    """

    tensor: int
    reduction: int
    group: int
    returns_work: int
    root: int
    least: int
    most: int
    root_name: str


# by the name of the reader's method: the parameter whose size counts, or None. All others are read by the reader alone.
_SIZED: dict[str, str | None] = {
    "barrier": None,
    "broadcast": "tensor",
    "all_reduce": "tensor",
    "reduce": "tensor",
    "gather": "tensor",
    "scatter": "tensor",
    "all_gather_into_tensor": "input_tensor",
    "reduce_scatter_tensor": "output",
}


def plain_places(read: Any) -> TorchPlaces | None:
    """Return where a call has the arguments that a reader's method reads; None if only that can read them."""
    if read.__name__ not in _SIZED:
        return None
    code, sized = read.__code__, _SIZED[read.__name__]
    place = {parameter: number - 1 for number, parameter in enumerate(code.co_varnames[: code.co_argcount])}
    root_name = next((parameter for parameter in ("src", "dst") if parameter in place), "")
    tensor = -1 if sized is None else place[sized]
    return TorchPlaces(
        tensor=tensor, reduction=place.get("op", -1), group=place["group"], returns_work=place["async_op"],
        root=place.get(root_name, -1), least=tensor + 1, most=place["async_op"] + 1, root_name=root_name,
    )  # fmt: skip
