"""Watches torch.distributed.rpc: who joins and leaves, and, by the other files here, who calls whom.

A call is answered by a thread of torch's own in the rank that was called, whatever the other threads of that rank wait
for: served_functions.py counts them.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from paceline.guard.rank.torch.rpc.rpc_calls import (
    watch_futures,
    watched_call,
    watched_fetch,
    watched_posting,
    watched_remote,
)
from paceline.guard.rank.torch.rpc.rpc_workers import NO_LIMIT, NOT_GIVEN, RpcWatch, read_argument
from paceline.guard.rank.torch.rpc.served_functions import watch_served_functions
from paceline.guard.rank.torch.torch_module import WATCH
from paceline.guard.rank.watched_calls import CALLED_BY_WRAPPER, make_blocked_call
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME


def watch_rpc(package: ModuleType) -> None:
    """Replace the public functions of torch.distributed.rpc by watched ones."""
    if not getattr(package, "is_available", bool)() or not WATCH:
        return  # this torch was built without it
    watch = RpcWatch(package)
    api = watch.api
    watch_served_functions(watch)
    package.init_rpc = _watched_init(watch, watch.package.init_rpc)  # type: ignore[attr-defined]
    for name, watched in (
        ("rpc_sync", watched_call), ("rpc_async", watched_posting), ("remote", watched_remote),
        ("shutdown", _watched_shutdown),
    ):  # fmt: skip
        replaced = watched(watch, getattr(api, name))
        setattr(api, name, replaced)
        setattr(package, name, replaced)
    watch.package.PyRRef.to_here = watched_fetch(watch, watch.package.PyRRef.to_here)
    watch_futures(watch)


def _watched_init(watch: RpcWatch, function: Any) -> Any:
    code, unwatched = BY_NAME["torch.init_rpc"].code, watch.unwatched(function)

    @functools.wraps(function)
    def init_rpc(
        name: Any, backend: Any = None, rank: Any = -1, world_size: Any = None, rpc_backend_options: Any = None
    ) -> Any:
        args = (name, backend, rank, world_size, rpc_backend_options)
        # workers that come and go have no number, and nobody waits for all of them
        may_join = watch.workers is None and isinstance(rank, int) and rank >= 0 and bool(world_size)
        workers = watch.join(rank, int(world_size or 0), rpc_backend_options) if may_join else None
        recorder = SESSION.recorder
        if recorder is None or workers is None:
            return function(*args)
        watch.workers = workers  # others may call this rank before it returns
        number = recorder.begin_collective(workers, code, depth=CALLED_BY_WRAPPER)
        try:
            return make_blocked_call(recorder, number, unwatched, args, {})
        except BaseException:
            watch.leave()
            raise

    return init_rpc


def _watched_shutdown(watch: RpcWatch, function: Any) -> Any:
    code, unwatched, nesting = BY_NAME["torch.rpc.shutdown"].code, watch.unwatched(function), watch.inside

    @functools.wraps(function)
    def shutdown(graceful: bool = True, *args: Any, **named: Any) -> Any:
        recorder, workers = SESSION.recorder, watch.workers
        if recorder is None or workers is None or nesting.depth:
            return function(graceful, *args, **named)
        timeout = read_argument("timeout", args, named, 0)
        try:
            if not graceful:  # it waits for nobody
                return unwatched(graceful, *args, **named)
            flags = 0 if timeout in (NOT_GIVEN, NO_LIMIT) else layout.OWN_TIMEOUT
            number = recorder.begin_collective(workers, code, flags=flags, depth=CALLED_BY_WRAPPER)
            return make_blocked_call(recorder, number, unwatched, (graceful, *args), named)
        finally:
            watch.leave()

    return shutdown
