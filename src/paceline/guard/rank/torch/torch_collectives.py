"""Watches the collectives of torch.distributed, and the waits for those that were started.

What is read of the arguments is in torch_collective_arguments.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.buffer_size import Size
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.torch.torch_collective_arguments import TorchCollectiveArguments
from paceline.guard.rank.torch.torch_module import TorchWatch
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, make_wait, post_request
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME


def watched_collective(
    watch: TorchWatch, function: Any, code: int, read: Callable[..., TorchCollectiveArguments]
) -> Any:
    """Return a function that records a collective and then makes it."""
    nesting, unwatched, make_blocked_call = watch.inside, watch.unwatched(function), watch.make_blocked_call

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        recorder = SESSION.recorder
        if recorder is None or nesting.depth:
            return function(*args, **named)
        try:
            group, root, reduction, size, returns_work, flags = read(*args, **named)
        except (TypeError, AttributeError):  # wrong arguments: torch says so better
            return function(*args, **named)
        communicator = watch.world if group is None else watch.communicator(group)
        if communicator is None:
            return function(*args, **named)
        if returns_work:
            request = recorder.requests.take()
            number = _record_posting(recorder, communicator, code, root, reduction, size, request)
            work = post_request(recorder, number, request, unwatched, args, named, active=True)
            watch.follow_work(work, recorder, request, number)
            return work
        dtype, num_bytes, count = size
        number = recorder.begin_collective(communicator, code, root, reduction, dtype, num_bytes, count, flags)
        return make_blocked_call(recorder, number, function, args, named)

    return call


def _record_posting(
    recorder: Recorder, communicator: Communicator, code: int, root: int, reduction: int, size: Size, request: int
) -> int:
    dtype, num_bytes, count = size
    return recorder.begin_collective(
        communicator, code, root, reduction, dtype, num_bytes, count, layout.NONBLOCKING, request,
        depth=CALLED_BY_HELPER,
    )  # fmt: skip


def watched_wait(watch: TorchWatch, function: Any) -> Any:
    """Return a wait that says what it waits for."""
    code = BY_NAME["torch.wait"].code
    nesting, works = watch.inside, watch.works

    @functools.wraps(function)
    def wait(*args: Any, **named: Any) -> Any:
        recorder = SESSION.recorder
        if recorder is None or nesting.depth:
            return function(*args, **named)
        work = args[0]
        posted = works.get(work)
        if posted is None:
            return function(*args, **named)
        flags = layout.OWN_TIMEOUT if _has_timeout(*args, **named) else 0
        number = recorder.begin_wait(code, [posted.request], any_of=False, flags=flags)
        value = make_wait(recorder, number, posted.record, function, args, named)
        works.pop(work, None)
        posted.complete(None)
        return value

    return wait


def _has_timeout(work: Any, timeout: Any = None) -> bool:
    return timeout is not None and bool(timeout)
