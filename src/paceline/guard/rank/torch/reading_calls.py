"""How functions of torch.distributed become watched ones that first read their arguments; compiled, if that can be."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.compiled_recorder import COMPILED
from paceline.guard.rank.torch.torch_collective_arguments import plain_places
from paceline.guard.rank.torch.torch_module import TorchWatch
from paceline.guard.rank.watched_process import SESSION


def reading_call(
    watch: TorchWatch, function: Any, code: int, read: Callable[..., Any], follow: Callable[..., Any], *, is_plain: bool
) -> Any:
    """Return a function that reads the arguments of a collective and then calls `follow`, which records and makes it.

    A function that torch itself calls inside another, arguments that cannot be read and groups that are not followed go
    straight to torch. The compiled form leaves a call that blocks to `follow` only if it is not plain.
    """
    if COMPILED is None:
        return _in_python(watch, function, read, follow)
    compiled = COMPILED.WatchedTorchCollective(
        watch.arguments, function, follow, code, read, is_plain, plain_places(read)
    )

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:  # a function, as torch's compiler expects one
        return compiled(*args, **named)

    return call


def _in_python(watch: TorchWatch, function: Any, read: Callable[..., Any], follow: Callable[..., Any]) -> Any:
    nesting = watch.inside

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        recorder = SESSION.recorder
        if recorder is None or nesting.depth:
            return function(*args, **named)
        try:
            arguments = read(*args, **named)
        except (TypeError, AttributeError):  # wrong arguments: torch says so better
            return function(*args, **named)
        group = arguments[0]
        communicator = watch.world if group is None else watch.communicator(group)
        if communicator is None:
            return function(*args, **named)
        return follow(recorder, communicator, arguments, args, named)

    return call


def outermost(watch: TorchWatch, function: Any, watched: Any) -> Any:
    """Return a method that is `watched`, and torch's own where a watched function calls it."""
    if COMPILED is None:
        return watched
    return functools.update_wrapper(COMPILED.OutermostCall(watch.inside, function, watched), function)
