"""Watches the calls of torch's stores that wait until somebody sets a key."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any

from paceline.guard.rank.torch.torch_module import TorchWatch
from paceline.guard.rank.watched_calls import CALLED_BY_WRAPPER, make_call
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME, STORE_CALLS

_USUAL_LIMIT = timedelta(seconds=300)  # of a store that is made without one; a shorter one is the script's own


def watch_stores(watch: TorchWatch) -> None:
    """Replace the methods of all stores that wait for a key."""
    kind: Any = watch.module.Store
    for operation in STORE_CALLS:
        name = operation.removeprefix("Store.")
        setattr(kind, name, _watched_store_call(watch, getattr(kind, name), BY_NAME[f"torch.{operation}"].code))


def _watched_store_call(watch: TorchWatch, function: Any, code: int) -> Any:
    nesting = watch.inside

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        recorder, world = SESSION.recorder, watch.world
        if recorder is None or world is None or nesting.depth:
            return function(*args, **named)
        flags = layout.OWN_TIMEOUT if _has_own_limit(*args, **named) else 0
        number = recorder.begin_message(world.index, code, flags=flags, depth=CALLED_BY_WRAPPER)
        return make_call(recorder, number, function, args, named)

    return call


def _has_own_limit(store: Any, keys: Any = None, timeout: Any = None, *args: Any, **named: Any) -> bool:
    """Say whether the script has given the call, or its store, a limit: then it is prepared for a key that is late."""
    limit = timeout if timeout is not None else getattr(store, "timeout", None)
    return not isinstance(limit, timedelta) or limit < _USUAL_LIMIT
