"""Watches torch.distributed: its public functions, and the waits for what they started.

Functions that call others (all_gather_object calls all_gather) are recorded once, as the user called them. What does
not come through a public function, DDP's own all-reduce for one, is seen at the dispatcher: torch_dispatcher.py.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from paceline.guard.rank.torch.reading_calls import outermost
from paceline.guard.rank.torch.tensor_memory import TensorMemoryReader, look_at_uses
from paceline.guard.rank.torch.torch_collective_arguments import READERS, TorchCollectiveReader
from paceline.guard.rank.torch.torch_collectives import watched_collective
from paceline.guard.rank.torch.torch_count_tables import TorchTableReader
from paceline.guard.rank.torch.torch_dispatcher import install_dispatcher_hooks
from paceline.guard.rank.torch.torch_groups import watched_destroy, watched_init, watched_new_group
from paceline.guard.rank.torch.torch_messages import watched_posted_receive, watched_receive, watched_send
from paceline.guard.rank.torch.torch_module import WATCH, TorchWatch
from paceline.guard.rank.torch.torch_results import TorchResults
from paceline.guard.rank.torch.torch_stores import watch_stores
from paceline.guard.rank.torch.torch_works import handing_works_over, watch_waits
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME


def watch_torch(module: ModuleType) -> None:
    """Replace the public functions of torch.distributed by watched ones."""
    if not hasattr(module, "ProcessGroup"):
        return  # this torch was built without distributed
    watch = TorchWatch(module)
    WATCH.append(watch)
    reader, tables, memory = TorchCollectiveReader(watch), TorchTableReader(watch), TensorMemoryReader(watch)
    results = TorchResults(watch) if SESSION.compares_results() else None
    watch.on_join.append(lambda recorder: look_at_uses(watch, recorder.buffers))
    for name, (operation, method) in READERS.items():
        if hasattr(module, name):
            code, read = BY_NAME[f"torch.{operation}"].code, getattr(reader, method.__name__)
            function, read_memory = getattr(module, name), memory.of_collective(name)
            make = watch.make_blocked_call if results is None else results.making(name)
            _replace(module, name, watched_collective(watch, function, code, read, make, tables.of(name), read_memory))
    for name in ("send", "isend"):
        _replace(module, name, watched_send(watch, getattr(module, name), BY_NAME[f"torch.{name}"].code, memory))
    _replace(module, "recv", watched_receive(watch, module.recv, BY_NAME["torch.recv"].code))
    _replace(module, "irecv", watched_posted_receive(watch, module.irecv, BY_NAME["torch.irecv"].code, memory))
    _replace(module, "init_process_group", watched_init(watch, module.init_process_group))
    _replace(module, "destroy_process_group", watched_destroy(watch, module.destroy_process_group))
    _replace(module, "new_group", watched_new_group(watch, module.new_group))
    watch_waits(watch, module.Work)
    watch_stores(watch)
    _replace(module, "batch_isend_irecv", handing_works_over(watch, module.batch_isend_irecv))
    _watch_direct_use(module, watch)


def _replace(module: Any, name: str, function: Any) -> None:
    """Put a function in the place of another, also where torch.distributed has already handed it on."""
    original = getattr(module, name)
    setattr(module, name, function)
    package = sys.modules.get("torch.distributed")
    if package is not None and getattr(package, name, None) is original:
        setattr(package, name, function)


def _watch_direct_use(module: Any, watch: TorchWatch) -> None:
    """Look at the dispatcher too once someone calls a process group's own methods."""
    for name in ("allreduce", "broadcast", "allgather", "barrier", "reduce", "alltoall_base", "reduce_scatter"):
        original = getattr(module.ProcessGroup, name, None)
        if original is not None:
            setattr(module.ProcessGroup, name, outermost(watch, original, _installing_hooks(original)))
    for name in ("send", "recv", "recv_anysource"):
        original = getattr(module.ProcessGroup, name, None)
        if original is not None:
            setattr(module.ProcessGroup, name, outermost(watch, original, _losing_messages(original)))


def _losing_messages(original: Any) -> Any:
    """Return a method that says, if it is the user who calls it, that not all messages are counted."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        if WATCH and WATCH[0].inside.depth == 0 and SESSION.recorder is not None:
            SESSION.recorder.ring.lose(layout.LOST_MESSAGES)
        return original(self, *args, **named)

    return call


def _installing_hooks(original: Any) -> Any:
    """Return a method that puts the dispatcher's hooks in if it is the user who calls it, and not torch."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        if WATCH and WATCH[0].inside.depth == 0:
            install_dispatcher_hooks()
        return original(self, *args, **named)

    return call
