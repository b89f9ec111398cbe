"""Sees collectives that do not come through a public function: DDP's own, functional ones, a group's own methods.

The hooks sit at the dispatcher's key BackendSelect and hand on from there. They cost more than the public functions'
(about 30 microseconds), so they are put in only when something is used that needs them.
"""

from __future__ import annotations

import functools
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from paceline.guard.rank.buffer_size import UNKNOWN_SIZE, Size, dtype_only, sum_sizes
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.count_tables import meet_pairs
from paceline.guard.rank.torch.torch_count_tables import TorchTableReader
from paceline.guard.rank.torch.torch_module import WATCH, NoDataError, TorchWatch
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.nobody import encode_outsider
from paceline.guard.shared_memory.operations import BY_NAME, UNKNOWN_REDUCTION


class _Operator(NamedTuple):
    """An operator of torch's dispatcher: how it is recorded, and where its arguments are."""

    operation: str
    tensors_at: int
    group_at: int
    root_at: int | None = None
    same_size: bool = True  # whether sizes must be equal on all members
    same_type: bool = True  # whether element types must be; those of some must fit by pairs
    reduces: bool = False
    table_at: tuple[
        int, ...
    ] = ()  # arguments that say how much each pair of members exchanges, as torch's function has


_OPERATORS = {
    "allreduce_": _Operator("all_reduce", 0, 1, reduces=True),
    "allreduce_coalesced_": _Operator("all_reduce_coalesced", 0, 1, reduces=True),
    "broadcast_": _Operator("broadcast", 0, 1, root_at=2),
    "reduce_": _Operator("reduce", 0, 1, root_at=3, reduces=True),
    "allgather_": _Operator("all_gather", 1, 2),
    "_allgather_base_": _Operator("all_gather_into_tensor", 1, 2),
    "allgather_into_tensor_coalesced_": _Operator("all_gather_into_tensor_coalesced", 1, 2),
    "_reduce_scatter_base_": _Operator("reduce_scatter_tensor", 0, 2, reduces=True),
    "reduce_scatter_": _Operator("reduce_scatter", 0, 2, same_size=False, reduces=True),
    "reduce_scatter_tensor_coalesced_": _Operator("reduce_scatter_tensor_coalesced", 0, 2, reduces=True),
    "alltoall_base_": _Operator("all_to_all_single", 1, 2, same_type=False, table_at=(0, 1, 3, 4)),
    "alltoall_": _Operator("all_to_all", 1, 2, same_type=False, table_at=(0, 1)),
    "gather_": _Operator("gather", 1, 2, root_at=3),
    "scatter_": _Operator("scatter", 0, 2, root_at=3),
    "barrier": _Operator("barrier", 0, 1, same_type=False),
}
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
    for name, described in _OPERATORS.items():
        if f"c10d::{name}" in known:
            operator = getattr(torch.ops.c10d, name).default
            library.impl(name, _hook(WATCH[0], operator, described), "BackendSelect", with_keyset=True)


def _hook(watch: TorchWatch, operator: Any, described: _Operator) -> Any:
    import torch

    internals: Any = torch._C
    after = internals._dispatch_keyset_full_after(internals.DispatchKey.BackendSelect)
    code = BY_NAME[f"torch.{described.operation}"].code
    # which reduction it is would have to be unpacked from a script object; an unknown one fits any other
    reduction = UNKNOWN_REDUCTION if described.reduces else 0
    read_table = TorchTableReader(watch).of(described.operation) if described.table_at else None

    def hook(keys: Any, *args: Any, **named: Any) -> Any:
        recorder = SESSION.recorder
        if recorder is None or watch.inside.depth:
            return operator.redispatch(keys & after, *args, **named)
        communicator = watch.communicator(watch.module.ProcessGroup.unbox(args[described.group_at]))
        if communicator is None:
            return operator.redispatch(keys & after, *args, **named)
        root = NOTHING if described.root_at is None else _member(communicator, int(args[described.root_at]))
        try:
            dtype, num_bytes, count = _tensors_size(watch, described, args)
        except NoDataError:
            return operator.redispatch(keys & after, *args, **named)
        flags = layout.NONBLOCKING | watch.flags_of(communicator)
        # It only starts the operation. The site is searched for from here: torch's own frames lie between.
        number = recorder.begin_collective(communicator, code, root, reduction, dtype, num_bytes, count, flags)
        if read_table is not None:
            table = read_table(communicator, *(args[place] for place in described.table_at))
            meet_pairs(recorder, number, communicator, table, waits=False)
        try:  # it is not waited in, so none of the functions of watched_calls.py fits
            return operator.redispatch(keys & after, *args, **named)
        except BaseException as error:
            SESSION.note_failure(error, number)
            raise
        finally:
            recorder.leave(number)

    return hook


def _member(communicator: Communicator, number: int) -> int:
    return number if 0 <= number < len(communicator.ranks) else encode_outsider(number)


def _tensors_size(watch: TorchWatch, described: _Operator, args: tuple[Any, ...]) -> Size:
    tensors = args[described.tensors_at]
    if not described.same_type:
        return UNKNOWN_SIZE
    if isinstance(tensors, list | tuple):
        size = sum_sizes(watch.size(tensor) for tensor in tensors if not isinstance(tensor, list | tuple))
    else:
        size = watch.size(tensors)
    return size if described.same_size else dtype_only(size)


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
            setattr(functional, name, _installing(original))
    if WATCH:
        _let_compile(functional)


def _installing(original: Any) -> Any:
    """Return a function that puts the hooks in before it does what it did. Compiled code has them already."""
    import torch

    is_compiling = torch.compiler.is_compiling

    def call(*args: Any, **named: Any) -> Any:
        if not is_compiling():
            install_dispatcher_hooks()
        return original(*args, **named)

    # torch.compile traces through this function: it must be able to, as it can through the one that is replaced, so
    # this one is not marked as ours
    call.__code__ = call.__code__.replace(co_filename=original.__code__.co_filename)
    return functools.wraps(original)(call)


def _let_compile(functional: Any) -> None:
    """Tell torch.compile that watched collectives can be traced like the functions they replace."""
    remaps: dict[Any, Any] = getattr(functional, "traceable_collective_remaps", {})
    for function in list(vars(WATCH[0].module).values()):
        # its type first: some names of torch.distributed warn when anything is asked of them
        original = getattr(function, "__wrapped__", None) if type(function) is FunctionType else None
        if original is not None and original in remaps:
            remaps.setdefault(function, remaps[original])


def watch_compiler(module: ModuleType) -> None:
    """Put the hooks in before something is compiled: a compiled graph calls no function that is watched."""

    def on_start(*_: Any) -> None:
        if SESSION.recorder is not None:
            install_dispatcher_hooks()

    handler: Any = getattr(module, "callback_handler", None)
    if handler is not None:
        handler.register_start_callback(on_start)


def skip_own_files(module: ModuleType) -> None:
    """Tell torch.compile to leave our functions as they are, as it does with those of torch.distributed."""
    rules: Any = module
    rules.add(__name__.rpartition(".rank.")[0])
