"""Watches torch.distributed: its public functions, and the waits for what they started.

Functions that call others (all_gather_object calls all_gather) are recorded once, as the user called them. What does
not come through a public function, DDP's own all-reduce for one, is seen at the dispatcher: guard/torch_dispatch.py.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from paceline.guard import layout
from paceline.guard.board import pack_size
from paceline.guard.layout import ANY, NOTHING, RECEIVED, SENT
from paceline.guard.mpi_requests import Posted
from paceline.guard.operations import BY_NAME, DTYPE_CODES, REDUCTION_CODES, UNKNOWN_REDUCTION
from paceline.guard.recorder import Communicator, Recorder
from paceline.guard.session import SESSION, identity_of

Size = tuple[int, int, int]
UNKNOWN: Size = (0, -1, -1)
_DTYPES = {
    "bool": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "bfloat16": "bf16", "float32": "f4", "float64": "f8",
    "complex32": "c4", "complex64": "c8", "complex128": "c16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip
_REDUCTIONS = {
    "SUM": "SUM", "AVG": "AVG", "PRODUCT": "PROD", "MIN": "MIN", "MAX": "MAX", "BAND": "BAND", "BOR": "BOR",
    "BXOR": "BXOR", "PREMUL_SUM": "PREMUL_SUM",
}  # fmt: skip


class _Inside(threading.local):
    """How many watched functions this thread is in."""

    depth = 0


class TorchWatch:
    """What is known of torch.distributed in this process."""

    def __init__(self, module: ModuleType) -> None:
        import torch

        self.module: Any = module
        self.inside = _Inside()
        self.dtypes: dict[Any, int] = {}
        for name, code in _DTYPES.items():
            if hasattr(torch, name):
                self.dtypes[getattr(torch, name)] = DTYPE_CODES[code]
        self._reductions: dict[Any, int] = {}
        reduce_op: Any = getattr(module, "ReduceOp")  # noqa: B009
        for name, known in _REDUCTIONS.items():
            if hasattr(reduce_op, name):
                self._reductions[getattr(reduce_op, name)] = REDUCTION_CODES[known]
        self.groups: dict[Any, Communicator] = {}
        self.world: Communicator | None = None
        self.works: weakref.WeakKeyDictionary[Any, Posted] = weakref.WeakKeyDictionary()
        self._num_worlds = 0
        self._num_groups: dict[tuple[int, ...], int] = {}

    def size(self, tensor: Any) -> Size:
        """Return element type, bytes and elements of a tensor."""
        try:
            count = tensor.numel()
            return self.dtypes.get(tensor.dtype, 0), count * tensor.element_size(), count
        except (AttributeError, RuntimeError):
            return UNKNOWN

    def reduction(self, op: Any) -> int:
        """Return the number of a reduction."""
        try:
            return self._reductions.get(op, UNKNOWN_REDUCTION)
        except TypeError:
            return UNKNOWN_REDUCTION

    def communicator(self, group: Any) -> Communicator | None:
        """Return the communicator of a group; None if it is not followed."""
        if group is None:
            return self.world
        known = self.groups.get(group)
        if known is None and SESSION.recorder is not None and self.world is not None:
            known = self._adopt(group)
        return known

    def _adopt(self, group: Any) -> Communicator | None:
        """Follow a group that was made by a way we did not see."""
        module = self.module
        if not isinstance(group, module.ProcessGroup):
            return self.world if group is module.GroupMember.WORLD else None
        ranks = tuple(module.get_process_group_ranks(group))
        return self.add_group(group, ranks, module._get_process_group_name(group))

    def add_group(self, group: Any, ranks: tuple[int, ...], name: str) -> Communicator | None:
        """Follow a group from now on."""
        recorder, world = SESSION.recorder, self.world
        if recorder is None or world is None:
            return None
        rank = world.member
        if rank not in ranks:
            return None
        identity = "torch-" + identity_of(world.identity, ranks, name)
        made = recorder.communicator(identity, f"group {name}", ranks, ranks.index(rank))
        if made is not None:
            self.groups[group] = made
        return made

    def join(self, rank: int, world_size: int, job: str) -> None:
        """Become a rank of this job."""
        if SESSION.join("torch", rank=rank, world_size=world_size, job=job) is None:
            return
        recorder = SESSION.recorder
        assert recorder is not None
        self._num_worlds += 1
        name = "WORLD" if self._num_worlds == 1 else f"WORLD {self._num_worlds}"
        self.world = recorder.communicator(f"torch-world-{self._num_worlds}", name, range(world_size), rank)

    def leave(self, group: Any) -> None:
        """Note that a group, or all, was destroyed."""
        recorder = SESSION.recorder
        if recorder is None:
            return
        everything = group is None or self.groups.get(group) is self.world
        for known, communicator in list(self.groups.items()):
            if everything or known is group:
                recorder.give_up(communicator)
                del self.groups[known]
        if everything and self.world is not None:
            recorder.give_up(self.world)
            self.world = None

    def enter(self) -> bool:
        """Say whether this is the outermost watched function of the thread; count it in any case."""
        self.inside.depth += 1
        return self.inside.depth == 1

    def exit(self) -> None:
        """Undo `enter`."""
        self.inside.depth -= 1


WATCH: list[TorchWatch] = []  # the one of this process, once torch.distributed is loaded


def watch_torch(module: ModuleType) -> None:
    """Replace the public functions of torch.distributed by watched ones."""
    if not hasattr(module, "ProcessGroup"):
        return  # this torch was built without distributed
    watch = TorchWatch(module)
    WATCH.append(watch)
    for name, describe in _collectives(watch).items():
        if hasattr(module, name):
            operation = BY_NAME[f"torch.{_ALIASES.get(name, name)}"].code
            _replace(module, name, _collective(watch, getattr(module, name), operation, describe))
    for name in ("send", "isend"):
        _replace(module, name, _send(watch, getattr(module, name), BY_NAME[f"torch.{name}"].code))
    for name in ("recv", "irecv"):
        _replace(module, name, _receive(watch, getattr(module, name), BY_NAME[f"torch.{name}"].code))
    _replace(module, "init_process_group", _init(watch, module.init_process_group))
    _replace(module, "destroy_process_group", _destroy(watch, module.destroy_process_group))
    _replace(module, "new_group", _new_group(watch, module.new_group))
    work: Any = module.Work
    work.wait = _wait(watch, work.wait)
    _on_direct_use(module)


def _replace(module: Any, name: str, function: Any) -> None:
    """Put a function in the place of another, also where torch.distributed has already handed it on."""
    import sys

    original = getattr(module, name)
    setattr(module, name, function)
    package = sys.modules.get("torch.distributed")
    if package is not None and getattr(package, name, None) is original:
        setattr(package, name, function)


def _on_direct_use(module: Any) -> None:
    """Look at the dispatcher too once someone calls a process group's own methods."""
    from paceline.guard.torch_dispatch import install_dispatcher_hooks

    for name in ("allreduce", "broadcast", "allgather", "barrier", "reduce", "alltoall_base", "reduce_scatter"):
        original = getattr(module.ProcessGroup, name, None)
        if original is not None:
            setattr(module.ProcessGroup, name, _then(original, install_dispatcher_hooks))


def _then(original: Any, install: Callable[[], None]) -> Any:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        if WATCH and WATCH[0].inside.depth == 0:
            install()
        return original(self, *args, **named)

    return call


# collectives

Facts = tuple[Any, int, int, Size, bool, int]  # group, root, reduction, size, returns work, flags
_ALIASES = {
    "all_gather_single": "all_gather_into_tensor",
    "_all_gather_base": "all_gather_into_tensor",
    "reduce_scatter_single": "reduce_scatter_tensor",
    "_reduce_scatter_base": "reduce_scatter_tensor",
}


def _collectives(watch: TorchWatch) -> dict[str, Callable[..., Facts]]:
    size, reduction = watch.size, watch.reduction
    plus = watch.module.ReduceOp.SUM

    def root(group: Any, everywhere: int | None, within: int | None) -> int:
        if within is not None:
            return within
        comm = watch.communicator(group)
        rank = 0 if everywhere is None else everywhere
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


def _collective(watch: TorchWatch, function: Any, code: int, describe: Callable[..., Facts]) -> Any:
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
        number = recorder.collective(
            comm, code, root=root, reduction=reduction, dtype=dtype, num_bytes=num_bytes, count=count, flags=flags
        )
        word = recorder.block(number)
        local.depth = 1
        try:
            return function(*args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            local.depth = 0
            recorder.unblock(word, number)

    return call


def _post(
    watch: TorchWatch, recorder: Recorder, comm: Communicator, code: int, root: int, reduction: int, size: Size,
    function: Any, args: Any, named: Any,
) -> Any:  # fmt: skip
    request = recorder.new_request()
    number = recorder.collective(
        comm, code, root=root, reduction=reduction, dtype=size[0], num_bytes=size[1], count=size[2],
        flags=layout.NONBLOCKING, request=request, depth=3,
    )  # fmt: skip
    watch.inside.depth = 1
    try:
        work = function(*args, **named)
    except BaseException as error:
        SESSION.note_failure(error, number)
        recorder.free_request(request)
        raise
    finally:
        watch.inside.depth = 0
    recorder.leave(number)
    _keep(watch, recorder, work, request, number)
    return work


def _keep(watch: TorchWatch, recorder: Recorder, work: Any, request: int, number: int) -> Posted | None:
    recorder.keep_request(request, number)
    recorder.activate_request(request, posted=True)
    posted = Posted(recorder=recorder, request=request, record=number)
    try:
        watch.works[work] = posted
    except TypeError:  # nothing that can be waited for
        posted.release()
        return None
    return posted


def _wait(watch: TorchWatch, function: Any) -> Any:
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
        number = recorder.wait(code, [posted.request], any_of=False, flags=layout.OWN_TIMEOUT if own else 0)
        word = recorder.block(number)
        try:
            value = function(self, *args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.unblock(word, number)
        works.pop(self, None)
        posted.complete(None)
        return value

    return wait


def _has_limit(args: Any, named: Any) -> bool:
    limit = args[0] if args else named.get("timeout")
    return limit is not None and bool(limit)


# messages


def _send(watch: TorchWatch, function: Any, code: int) -> Any:
    posts = function.__name__ == "isend"
    local = watch.inside

    @functools.wraps(function)
    def call(tensor: Any, dst: Any = None, group: Any = None, tag: int = 0, group_dst: Any = None, **named: Any) -> Any:
        recorder, comm = SESSION.recorder, watch.communicator(group)
        if recorder is None or comm is None or local.depth:
            return function(tensor, dst, group, tag, group_dst, **named)
        peer = _member(comm, dst, group_dst)
        dtype, num_bytes, count = watch.size(tensor)
        exists = 0 <= peer < len(comm.ranks)
        nth = recorder.count_message(comm, SENT, peer, tag) if exists else 0
        request = recorder.new_request() if posts else 0
        number = recorder.begin(
            comm.index, code, root=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, sequence=nth,
            request=request, flags=layout.NONBLOCKING if posts else 0,
        )  # fmt: skip
        if not exists:
            recorder.stop(number, layout.STOP_ARGUMENT, 0)
        recorder.meet_message(number, comm, SENT, peer, tag, nth, pack_size(dtype, num_bytes))
        arguments = (tensor, dst, group, tag, group_dst)
        if posts:
            return _posted_message(watch, recorder, function, arguments, named, number, request, None)
        return _in_call(watch, recorder, function, arguments, named, number)

    return call


def _receive(watch: TorchWatch, function: Any, code: int) -> Any:
    posts = function.__name__ == "irecv"
    local = watch.inside

    @functools.wraps(function)
    def call(tensor: Any, src: Any = None, group: Any = None, tag: int = 0, group_src: Any = None, **named: Any) -> Any:
        recorder, comm = SESSION.recorder, watch.communicator(group)
        if recorder is None or comm is None or local.depth:
            return function(tensor, src, group, tag, group_src, **named)
        peer = ANY if src is None and group_src is None else _member(comm, src, group_src)
        dtype, num_bytes, count = watch.size(tensor)
        size = pack_size(dtype, num_bytes)
        nth = recorder.next_receive(comm, peer, tag)
        request = recorder.new_request() if posts else 0
        number = recorder.begin(
            comm.index, code, root=peer, tag=tag, dtype=dtype, num_bytes=num_bytes, count=count, sequence=nth,
            request=request, flags=layout.NONBLOCKING if posts else 0,
        )  # fmt: skip
        if peer != ANY and not 0 <= peer < len(comm.ranks):
            recorder.stop(number, layout.STOP_ARGUMENT, 0)
        recorder.meet_message(number, comm, RECEIVED, peer, tag, nth, size)
        arguments = (tensor, src, group, tag, group_src)
        if posts:
            taken = (comm, peer, tag, nth, size)
            recorder.expect(comm, peer, tag, 1)
            return _posted_message(watch, recorder, function, arguments, named, number, request, taken)
        source = _in_call(watch, recorder, function, arguments, named, number)
        if peer == ANY:
            peer = _member(comm, source, None)
            nth = recorder.next_receive(comm, peer, tag)
        recorder.count_message(comm, RECEIVED, peer, tag)
        recorder.check_received(number, comm, peer, tag, nth, size)
        return source

    return call


def _member(comm: Communicator, rank: Any, within: Any) -> int:
    """Return the number of a peer in its group; one that cannot be for a peer that is not in it."""
    if within is not None:
        return int(within)
    if rank is None:
        return 0
    return comm.ranks.index(rank) if rank in comm.ranks else int(rank) if rank >= len(comm.ranks) else -2000


def _in_call(
    watch: TorchWatch, recorder: Recorder, function: Any, args: tuple[Any, ...], named: dict[str, Any], number: int
) -> Any:
    word = recorder.block(number)
    watch.inside.depth = 1
    try:
        return function(*args, **named)
    except BaseException as error:
        SESSION.note_failure(error, number)
        raise
    finally:
        watch.inside.depth = 0
        recorder.unblock(word, number)


def _posted_message(
    watch: TorchWatch, recorder: Recorder, function: Any, args: tuple[Any, ...], named: dict[str, Any], number: int,
    request: int, receives: tuple[Communicator, int, int, int, int] | None,
) -> Any:  # fmt: skip
    watch.inside.depth = 1
    try:
        work = function(*args, **named)
    except BaseException as error:
        SESSION.note_failure(error, number)
        recorder.free_request(request)
        raise
    finally:
        watch.inside.depth = 0
    recorder.leave(number)
    posted = _keep(watch, recorder, work, request, number)
    if posted is not None:
        posted.receives = receives
    return work


# groups


def _init(watch: TorchWatch, function: Any) -> Any:
    code = BY_NAME["torch.init_process_group"].code

    @functools.wraps(function)
    def init_process_group(*args: Any, **named: Any) -> Any:
        place = _place(args, named)
        number = None
        if place is not None and not watch.module.is_initialized():
            watch.join(*place)
            recorder, comm = SESSION.recorder, watch.world
            if recorder is not None and comm is not None:
                number = recorder.collective(comm, code)
                word = recorder.block(number)
        watch.enter()
        try:
            value = function(*args, **named)
        except BaseException as error:
            if number is not None:
                SESSION.note_failure(error, number)
            raise
        finally:
            watch.exit()
            if number is not None and recorder is not None:
                recorder.unblock(word, number)
        if watch.world is None and watch.module.is_initialized():
            module = watch.module
            watch.join(module.get_rank(), module.get_world_size(), _job(args, named))
        if watch.world is not None:
            watch.groups[watch.module.GroupMember.WORLD] = watch.world
        return value

    return init_process_group


def _place(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[int, int, str] | None:
    """Return rank, number of ranks and job from the arguments or the environment, if they say."""
    # init_process_group(backend, init_method, timeout, world_size, rank, store, ...)
    world_size = named.get("world_size", args[3] if len(args) > 3 else -1)
    rank = named.get("rank", args[4] if len(args) > 4 else -1)
    method = named.get("init_method", args[1] if len(args) > 1 else None)
    try:
        if method is None or method.startswith("env://") or rank >= 0:
            rank = rank if rank >= 0 else int(os.environ["RANK"])
            world_size = world_size if world_size > 0 else int(os.environ["WORLD_SIZE"])
            return rank, world_size, _job(args, named)
    except (KeyError, ValueError, AttributeError, TypeError):
        return None
    return None


def _job(args: tuple[Any, ...], named: dict[str, Any]) -> str:
    """Return what tells this job from others that run at the same time."""
    method = named.get("init_method", args[1] if len(args) > 1 else None)
    store = named.get("store", args[5] if len(args) > 5 else None)
    if store is not None:
        return f"store {getattr(store, 'host', '')}:{getattr(store, 'port', getattr(store, 'path', ''))}"
    names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    again = [os.environ.get(name, "") for name in names]
    if method is not None and not method.startswith("env://"):
        return " ".join([method.partition("?")[0], *again])
    return " ".join([os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", ""), *again])


def _destroy(watch: TorchWatch, function: Any) -> Any:
    @functools.wraps(function)
    def destroy_process_group(group: Any = None) -> Any:
        if group is None or group is watch.module.GroupMember.WORLD:
            watch.leave(None)
        else:
            watch.leave(group)
        return function(group)

    return destroy_process_group


def _new_group(watch: TorchWatch, function: Any) -> Any:
    code = BY_NAME["torch.new_group"].code

    @functools.wraps(function)
    def new_group(ranks: Any = None, *args: Any, **named: Any) -> Any:
        recorder, world = SESSION.recorder, watch.world
        if recorder is None or world is None or named.get("use_local_synchronization"):
            return function(ranks, *args, **named)
        listed = tuple(sorted(ranks)) if ranks is not None else world.ranks
        stands_for = int(identity_of(listed)[:12], 16)  # two ranks that list others make different groups
        if not watch.inside.depth:
            recorder.write_text({"group": stands_for, "ranks": list(listed)[:1000]})
        number = recorder.collective(world, code, num_bytes=stands_for)
        word = recorder.block(number)
        watch.enter()
        try:
            made = function(ranks, *args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            watch.exit()
            recorder.unblock(word, number)
        if isinstance(made, watch.module.ProcessGroup):
            watch.add_group(made, listed, watch.module._get_process_group_name(made))
        return made

    return new_group
