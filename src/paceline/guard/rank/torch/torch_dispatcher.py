"""Sees collectives that do not come through a public function: DDP's own, functional ones, a group's own methods.

The hooks sit at the dispatcher's key BackendSelect and hand on from there. They cost more than the public functions'
(some 30 microseconds), so they are put in only when something is used that needs them.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from paceline.guard.rank.torch.torch_module import UNKNOWN, WATCH, Size, TorchWatch
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.operations import BY_NAME, UNKNOWN_REDUCTION

# operator -> (name, where its tensors are, where its group is, where its root is, whether sizes must be equal)
_OPERATORS: dict[str, tuple[str, int, int, int | None, bool]] = {
    "allreduce_": ("all_reduce", 0, 1, None, True),
    "allreduce_coalesced_": ("all_reduce_coalesced", 0, 1, None, True),
    "broadcast_": ("broadcast", 0, 1, 2, True),
    "reduce_": ("reduce", 0, 1, 3, True),
    "allgather_": ("all_gather", 1, 2, None, True),
    "_allgather_base_": ("all_gather_into_tensor", 1, 2, None, True),
    "allgather_into_tensor_coalesced_": ("all_gather_into_tensor_coalesced", 1, 2, None, True),
    "_reduce_scatter_base_": ("reduce_scatter_tensor", 0, 2, None, True),
    "reduce_scatter_": ("reduce_scatter", 0, 2, None, False),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter_tensor_coalesced", 0, 2, None, True),
    "alltoall_base_": ("all_to_all_single", 1, 2, None, False),
    "alltoall_": ("all_to_all", 1, 2, None, False),
    "gather_": ("gather", 1, 2, 3, True),
    "scatter_": ("scatter", 0, 2, 3, True),
    "barrier": ("barrier", 0, 1, None, False),
}
_REDUCES = ("allreduce_", "allreduce_coalesced_", "reduce_", "_reduce_scatter_base_", "reduce_scatter_",
            "reduce_scatter_tensor_coalesced_")  # fmt: skip
_LIBRARY: list[Any] = []  # kept: the hooks go when it does


def install_dispatcher_hooks() -> None:
    """Put the hooks in, once."""
    if _LIBRARY or not WATCH or SESSION.folder is None:
        return
    import torch

    kind: Any = torch.library.Library
    library = kind("c10d", "IMPL")
    _LIBRARY.append(library)
    known = {schema.name for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("c10d::")}
    for name, facts in _OPERATORS.items():
        if f"c10d::{name}" in known:
            operator = getattr(torch.ops.c10d, name).default
            library.impl(name, _hook(WATCH[0], operator, name, facts), "BackendSelect", with_keyset=True)


def _hook(watch: TorchWatch, operator: Any, name: str, facts: tuple[str, int, int, int | None, bool]) -> Any:
    import torch

    internals: Any = torch._C
    after = internals._dispatch_keyset_full_after(internals.DispatchKey.BackendSelect)
    shown, tensors_at, group_at, root_at, sized = facts
    code = BY_NAME[f"torch.{shown}"].code
    reduction = UNKNOWN_REDUCTION if name in _REDUCES else 0

    def hook(keys: Any, *args: Any, **named: Any) -> Any:
        recorder = SESSION.recorder
        if recorder is None or watch.inside.depth:
            return operator.redispatch(keys & after, *args, **named)
        comm = watch.communicator(watch.module.ProcessGroup.unbox(args[group_at]))
        if comm is None:
            return operator.redispatch(keys & after, *args, **named)
        size = _size(watch, args[tensors_at]) if name != "barrier" else UNKNOWN
        number = recorder.begin_collective(
            comm, code, root=int(args[root_at]) if root_at is not None else NOTHING, reduction=reduction,
            dtype=size[0], num_bytes=size[1] if sized else -1, count=size[2] if sized else -1,
            flags=layout.NONBLOCKING,
        )  # fmt: skip
        try:
            return operator.redispatch(keys & after, *args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.leave(number)

    return hook


def _size(watch: TorchWatch, tensors: Any) -> Size:
    if not isinstance(tensors, list | tuple):
        return watch.size(tensors)
    sizes = [watch.size(tensor) for tensor in tensors if not isinstance(tensor, list | tuple)]
    dtypes = {dtype for dtype, _, _ in sizes}
    return (
        dtypes.pop() if len(dtypes) == 1 else 0,
        sum(num_bytes for _, num_bytes, _ in sizes),
        sum(count for _, _, count in sizes),
    )


def watch_ddp(module: ModuleType) -> None:
    """Put the hooks in when a model is wrapped for data parallelism."""
    wrapper: Any = module.DistributedDataParallel
    original = wrapper.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **named: Any) -> None:
        install_dispatcher_hooks()
        original(self, *args, **named)

    wrapper.__init__ = init


def watch_functional(module: ModuleType) -> None:
    """Put the hooks in when a functional collective is called."""
    functional: Any = module
    for name in ("_resolve_group", "_resolve_group_name"):
        original = getattr(functional, name, None)
        if original is not None:
            setattr(functional, name, _first(original))


def _first(original: Any) -> Any:
    @functools.wraps(original)
    def call(*args: Any, **named: Any) -> Any:
        install_dispatcher_hooks()
        return original(*args, **named)

    return call
