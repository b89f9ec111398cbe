"""Watches the functions that a rank calls on others by rpc, and its waits for their answers."""

from __future__ import annotations

import functools
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.request_slots import NO_REQUEST
from paceline.guard.rank.torch.rpc.rpc_workers import PendingCall, RpcWatch, read_argument
from paceline.guard.rank.watched_calls import CALLED_BY_WRAPPER, make_call, make_wait
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME

_MAX_PENDING = 512  # calls whose answers are followed at one time: requests of messages need room too


def watched_call(watch: RpcWatch, function: Any) -> Any:
    """Return an rpc_sync that says whom it waits for."""
    code, unwatched, nesting = BY_NAME["torch.rpc_sync"].code, watch.unwatched(function), watch.inside

    @functools.wraps(function)
    def rpc_sync(to: Any, *args: Any, **named: Any) -> Any:
        recorder, workers = SESSION.recorder, watch.workers
        peer = watch.member(to) if recorder is not None and workers is not None and not nesting.depth else None
        if recorder is None or workers is None or peer is None:
            return function(to, *args, **named)
        flags = watch.limit_flags(read_argument("timeout", args, named, 3))
        number = recorder.begin_message(workers.index, code, peer=peer, flags=flags, depth=CALLED_BY_WRAPPER)
        return make_call(recorder, number, unwatched, (to, *args), named)

    return rpc_sync


def watched_posting(watch: RpcWatch, function: Any) -> Any:
    """Return an rpc_async whose future is known until somebody has waited for it."""
    code, unwatched, nesting = BY_NAME["torch.rpc_async"].code, watch.unwatched(function), watch.inside

    @functools.wraps(function)
    def rpc_async(to: Any, *args: Any, **named: Any) -> Any:
        recorder, workers = SESSION.recorder, watch.workers
        peer = watch.member(to) if recorder is not None and workers is not None and not nesting.depth else None
        if recorder is None or workers is None or peer is None:
            return function(to, *args, **named)
        request = recorder.requests.take() if len(watch.pending) < _MAX_PENDING else NO_REQUEST
        flags = layout.NONBLOCKING | watch.limit_flags(read_argument("timeout", args, named, 3))
        number = recorder.begin_message(
            workers.index, code, peer=peer, request=request, flags=flags, depth=CALLED_BY_WRAPPER
        )
        call = PendingCall(recorder, request, number)
        future = _make_posting(recorder, number, unwatched, (to, *args), named)
        recorder.requests.keep(request, number)
        recorder.requests.activate(request, posted=True)
        if request:
            watch.pending[future] = (call,)
        return future

    return rpc_async


def watched_remote(watch: RpcWatch, function: Any) -> Any:
    """Return a remote that is recorded; whoever fetches its value waits for it."""
    code, unwatched, nesting = BY_NAME["torch.remote"].code, watch.unwatched(function), watch.inside

    @functools.wraps(function)
    def remote(to: Any, *args: Any, **named: Any) -> Any:
        recorder, workers = SESSION.recorder, watch.workers
        peer = watch.member(to) if recorder is not None and workers is not None and not nesting.depth else None
        if recorder is None or workers is None or peer is None:
            return function(to, *args, **named)
        number = recorder.begin_message(
            workers.index, code, peer=peer, flags=layout.NONBLOCKING, depth=CALLED_BY_WRAPPER
        )
        return _make_posting(recorder, number, unwatched, (to, *args), named)

    return remote


def _make_posting(recorder: Recorder, number: int, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Make a call that returns before it is answered."""
    try:
        value = function(*args, **named)
    except BaseException as error:
        SESSION.note_failure(error, number)
        raise
    recorder.leave(number)
    return value


def watched_fetch(watch: RpcWatch, function: Any) -> Any:
    """Return a to_here that says whose value it waits for; a rank waits for its own without others."""
    code, nesting = BY_NAME["torch.to_here"].code, watch.inside

    @functools.wraps(function)
    def to_here(self: Any, *args: Any, **named: Any) -> Any:
        recorder, workers = SESSION.recorder, watch.workers
        if recorder is None or workers is None or nesting.depth or self.is_owner():
            return function(self, *args, **named)
        flags = watch.limit_flags(read_argument("timeout", args, named, 0))
        number = recorder.begin_message(
            workers.index, code, peer=int(self.owner().id), flags=flags, depth=CALLED_BY_WRAPPER
        )
        return make_call(recorder, number, function, (self, *args), named)

    return to_here


def watch_futures(watch: RpcWatch) -> None:
    """Watch the waits for answers, of one call or of several together."""
    native: Any = watch.package.torch._C
    wait, collect = native.Future.wait, native._collect_all
    code, nesting, pending = BY_NAME["torch.wait"].code, watch.inside, watch.pending

    @functools.wraps(wait)
    def watched_wait(self: Any) -> Any:
        recorder = SESSION.recorder
        calls = pending.get(self) if recorder is not None and pending and not nesting.depth else None
        requests = [call.request for call in calls if call.request] if calls else []
        if recorder is None or not calls or not requests:
            return wait(self)
        number = recorder.begin_wait(code, requests, any_of=False)
        value = make_wait(recorder, number, calls[0].record, wait, (self,), {})
        for call in calls:
            call.release()
        return value

    @functools.wraps(collect)
    def watched_collect(futures: Any) -> Any:
        made = collect(futures)
        calls = tuple(call for future in futures for call in pending.get(future, ()))
        if calls:
            pending[made] = calls
        return made

    native.Future.wait, native._collect_all = watched_wait, watched_collect
