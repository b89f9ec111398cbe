"""Watches the collectives of torch.distributed, and the waits for those that were started."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.torch.torch_module import UNKNOWN, Size, TorchWatch, keep_work
from paceline.guard.rank.watched_process import SESSION, Posting
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.operations import BY_NAME

Facts = tuple[Any, int, int, Size, bool, int]  # group, root, reduction, size, returns work, flags
ALIASES = {
    "all_gather_single": "all_gather_into_tensor",
    "_all_gather_base": "all_gather_into_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
}


def collectives(watch: TorchWatch) -> dict[str, Callable[..., Facts]]:
    """Return, by function, what reads its arguments: all that must be equal on the members."""
    size, reduction = watch.size, watch.reduction
    plus = watch.module.ReduceOp.SUM

    def root(group: Any, everywhere: int | None, within: int | None) -> int:
        if within is not None:
            return int(within)
        comm = watch.communicator(group)
        rank = 0 if everywhere is None else int(everywhere)
        if comm is None or len(comm.ranks) == (watch.world and len(watch.world.ranks)):
            return rank
        return comm.ranks.index(rank) if rank in comm.ranks else rank + 10000

    def broadcast(
        tensor: Any, src: Any = None, group: Any = None, async_op: bool = False, group_src: Any = None
    ) -> Facts:
        return group, root(group, src, group_src), 0, size(tensor), async_op, 0

    def all_reduce(tensor: Any, op: Any = plus, group: Any = None, async_op: bool = False) -> Facts:
        return group, NOTHING, reduction(op), size(tensor), async_op, 0

    def all_reduce_coalesced(tensors: Any, op: Any = plus, group: Any = None, async_op: bool = False) -> Facts:
        return group, NOTHING, reduction(op), _sum(watch, tensors), async_op, 0

    def reduce(
        tensor: Any, dst: Any = None, op: Any = plus, group: Any = None, async_op: bool = False, group_dst: Any = None
    ) -> Facts:
        return group, root(group, dst, group_dst), reduction(op), size(tensor), async_op, 0

    def all_gather_object(object_list: Any, obj: Any, group: Any = None) -> Facts:
        return group, NOTHING, 0, UNKNOWN, False, 0

    def gather_object(
        obj: Any, object_gather_list: Any = None, dst: Any = None, group: Any = None, group_dst: Any = None
    ) -> Facts:
        return group, root(group, dst, group_dst), 0, UNKNOWN, False, 0

    def broadcast_object_list(
        object_list: Any, src: Any = None, group: Any = None, device: Any = None, group_src: Any = None, **_: Any
    ) -> Facts:
        return group, root(group, src, group_src), 0, UNKNOWN, False, 0

    def scatter_object_list(
        output: Any, inputs: Any = None, src: Any = None, group: Any = None, group_src: Any = None
    ) -> Facts:
        return group, root(group, src, group_src), 0, UNKNOWN, False, 0

    def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Facts:
        uneven = len({getattr(item, "shape", None) for item in tensor_list}) > 1  # gloo takes sizes per rank
        return group, NOTHING, 0, (size(tensor)[0], -1, -1) if uneven else size(tensor), async_op, 0

    def all_gather_into_tensor(
        output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
    ) -> Facts:
        return group, NOTHING, 0, size(input_tensor), async_op, 0

    def all_gather_coalesced(
        output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
    ) -> Facts:
        return group, NOTHING, 0, _sum(watch, input_tensor_list), async_op, 0

    def gather(
        tensor: Any, gather_list: Any = None, dst: Any = None, group: Any = None, async_op: bool = False,
        group_dst: Any = None,
    ) -> Facts:  # fmt: skip
        return group, root(group, dst, group_dst), 0, size(tensor), async_op, 0

    def scatter(
        tensor: Any, scatter_list: Any = None, src: Any = None, group: Any = None, async_op: bool = False,
        group_src: Any = None,
    ) -> Facts:  # fmt: skip
        return group, root(group, src, group_src), 0, size(tensor), async_op, 0

    def reduce_scatter(
        output: Any, input_list: Any, op: Any = plus, group: Any = None, async_op: bool = False
    ) -> Facts:
        return group, NOTHING, reduction(op), (size(output)[0], -1, -1), async_op, 0

    def reduce_scatter_tensor(
        output: Any, input: Any, op: Any = plus, group: Any = None, async_op: bool = False
    ) -> Facts:
        return group, NOTHING, reduction(op), size(output), async_op, 0

    def all_to_all_single(
        output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, group: Any = None,
        async_op: bool = False,
    ) -> Facts:  # fmt: skip
        dtype, num_bytes, count = size(input)
        even = output_split_sizes is None and input_split_sizes is None
        return group, NOTHING, 0, (dtype, num_bytes, count) if even else (dtype, -1, -1), async_op, 0

    def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False) -> Facts:
        first = size(input_tensor_list[0]) if len(input_tensor_list) else UNKNOWN
        return group, NOTHING, 0, (first[0], -1, -1), async_op, 0

    def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, **_: Any) -> Facts:
        return group, NOTHING, 0, UNKNOWN, async_op, 0

    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> Facts:
        return group, NOTHING, 0, UNKNOWN, False, layout.OWN_TIMEOUT

    return {
        "broadcast": broadcast, "all_reduce": all_reduce, "all_reduce_coalesced": all_reduce_coalesced,
        "reduce": reduce, "all_gather_object": all_gather_object, "gather_object": gather_object,
        "broadcast_object_list": broadcast_object_list, "scatter_object_list": scatter_object_list,
        "all_gather": all_gather, "all_gather_into_tensor": all_gather_into_tensor,
        "all_gather_single": all_gather_into_tensor, "_all_gather_base": all_gather_into_tensor,
        "all_gather_coalesced": all_gather_coalesced, "gather": gather, "scatter": scatter,
        "reduce_scatter": reduce_scatter, "reduce_scatter_tensor": reduce_scatter_tensor,
        "reduce_scatter_single": reduce_scatter_tensor, "_reduce_scatter_base": reduce_scatter_tensor,
        "all_to_all_single": all_to_all_single, "all_to_all": all_to_all, "barrier": barrier,
        "monitored_barrier": monitored_barrier,
    }  # fmt: skip


def _sum(watch: TorchWatch, tensors: Any) -> Size:
    sizes = [watch.size(tensor) for tensor in tensors]
    dtypes = {dtype for dtype, _, _ in sizes}
    total = sum(num_bytes for _, num_bytes, _ in sizes)
    return (dtypes.pop() if len(dtypes) == 1 else 0, total, sum(count for _, _, count in sizes))


def watched_collective(watch: TorchWatch, function: Any, code: int, describe: Callable[..., Facts]) -> Any:
    """Return a function that records a collective and then makes it."""
    local = watch.inside

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        recorder = SESSION.recorder
        if recorder is None or local.depth:
            return function(*args, **named)
        try:
            group, root, reduction, (dtype, num_bytes, count), posts, flags = describe(*args, **named)
        except (TypeError, AttributeError):  # wrong arguments: torch says so better
            return function(*args, **named)
        comm = watch.communicator(group)
        if comm is None:
            return function(*args, **named)
        if posts:
            return _post(watch, recorder, comm, code, root, reduction, (dtype, num_bytes, count), function, args, named)
        number = recorder.begin_collective(comm, code, root, reduction, dtype, num_bytes, count, flags)
        local.depth = 1
        try:
            return function(*args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            local.depth = 0
            recorder.unblock(number)

    return call


def _post(
    watch: TorchWatch, recorder: Recorder, comm: Communicator, code: int, root: int, reduction: int, size: Size,
    function: Any, args: Any, named: Any,
) -> Any:  # fmt: skip
    request = recorder.requests.take()
    number = recorder.begin_collective(
        comm, code, root=root, reduction=reduction, dtype=size[0], num_bytes=size[1], count=size[2],
        flags=layout.NONBLOCKING, request=request, depth=3,
    )  # fmt: skip
    watch.inside.depth = 1
    try:
        with Posting(recorder, number, request, active=True):
            work = function(*args, **named)
    finally:
        watch.inside.depth = 0
    keep_work(watch, recorder, work, request, number)
    return work


def watched_wait(watch: TorchWatch, function: Any) -> Any:
    """Return a wait that says what it waits for."""
    code = BY_NAME["torch.wait"].code
    local, works = watch.inside, watch.works

    @functools.wraps(function)
    def wait(self: Any, *args: Any, **named: Any) -> Any:
        recorder = SESSION.recorder
        if recorder is None or local.depth:
            return function(self, *args, **named)
        posted = works.get(self)
        if posted is None:
            return function(self, *args, **named)
        own = _has_limit(args, named)
        number = recorder.begin_wait(code, [posted.request], any_of=False, flags=layout.OWN_TIMEOUT if own else 0)
        recorder.block(number)
        try:
            value = function(self, *args, **named)
        except BaseException as error:
            recorder.fail(number)
            SESSION.note_failure(error, posted.record)
            raise
        finally:
            recorder.unblock(number)
        works.pop(self, None)
        posted.complete(None)
        return value

    return wait


def _has_limit(args: Any, named: Any) -> bool:
    limit = args[0] if args else named.get("timeout")
    return limit is not None and bool(limit)
