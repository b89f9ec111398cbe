"""Watches the works of torch.distributed: what a call has started, and the waits for it."""

from __future__ import annotations

import functools
import sys
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.torch.reading_calls import outermost
from paceline.guard.rank.torch.torch_module import TorchWatch
from paceline.guard.rank.watched_calls import make_wait
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME

# methods by which a work is completed, or handed on, without a wait
_OTHER_WAYS = ("is_completed", "get_future", "get_future_result", "result", "synchronize", "block_current_stream")


def watch_waits(watch: TorchWatch, kind: Any) -> None:
    """Watch the waits for works of a class. One that a backend derives in Python may have a `wait` of its own."""
    if kind not in watch.work_classes:
        watch.work_classes.add(kind)
        if "wait" in vars(kind):
            kind.wait = outermost(watch, kind.wait, watched_wait(watch, kind.wait))
        for name in _OTHER_WAYS:
            if name in vars(kind):
                setattr(kind, name, excusing(watch, getattr(kind, name)))


def follow_work(watch: TorchWatch, work: Any, recorder: Recorder, request: int, number: int) -> PostedRequest | None:
    """Remember which call a work belongs to, until somebody waits for it."""
    posted = PostedRequest(recorder, request, number)
    if not isinstance(work, watch.module.Work):  # nothing that can be waited for
        posted.release()
        return None
    if type(work) not in watch.work_classes:
        for kind in type(work).__mro__:
            if issubclass(kind, watch.module.Work):
                watch_waits(watch, kind)
    watch.works[work] = posted
    return posted


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
        try:
            value = make_wait(recorder, number, posted.record, function, args, named)
        except BaseException:
            posted.settle()
            raise
        works.pop(work, None)
        posted.complete(None)
        return value

    return wait


def excusing(watch: TorchWatch, function: Any) -> Any:
    """Return a method of a work by which it is completed in another way: nobody has to wait for it any more."""
    works, asks = watch.works, function.__name__ == "is_completed"

    @functools.wraps(function)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        value = function(self, *args, **named)
        if (value or not asks) and (posted := works.get(self)) is not None:
            posted.excuse()
        return value

    return call


def handing_works_over(watch: TorchWatch, function: Any) -> Any:
    """Return a function of torch that makes works for its caller, who has to complete them."""
    works = watch.works

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        made = function(*args, **named)
        recorder = SESSION.recorder
        if recorder is not None and recorder.remarks.is_of_user(sys._getframe(1)):
            for work in made or ():
                if (posted := works.get(work)) is not None:
                    posted.is_users = True
        return made

    return call


def _has_timeout(work: Any, timeout: Any = None) -> bool:
    return timeout is not None and bool(timeout)
