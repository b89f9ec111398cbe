"""Ranks as threads of this process."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from paceline.comm.threads import ThreadsComm, make_threads
from paceline.launch.outcome import Outcome, RankError


class _Ended(BaseException):
    """Raised in a thread that is still running at the deadline."""


def run_threads(function: Callable[..., Any], world_size: int, args: Sequence[Any], deadline: float) -> list[Outcome]:
    """Run the function on threads and return how each ended."""
    comms = make_threads(world_size, deadline)
    outcomes: dict[int, Outcome] = {}
    threads = [
        threading.Thread(target=_run, args=(function, comm, args, outcomes), name=f"rank {comm.rank}", daemon=True)
        for comm in comms
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + deadline
    try:
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
    finally:
        stacks = {rank: _stack(thread) for rank, thread in enumerate(threads) if thread.is_alive()}
        comms[0].abort(f"the deadline of {deadline} s has passed")
        for rank in stacks:
            _end(threads[rank])
    for rank, stack in stacks.items():
        reason = f"rank {rank} was still running after {deadline} s"
        outcomes[rank] = Outcome(rank=rank, error=RankError(reason), timed_out=True, stacks=stack)
    return [outcomes[rank] for rank in range(world_size)]


def _run(function: Callable[..., Any], comm: ThreadsComm, args: Sequence[Any], outcomes: dict[int, Outcome]) -> None:
    rank = comm.rank
    try:
        outcomes[rank] = Outcome(rank=rank, value=function(comm, *args))
    except _Ended:
        return  # run_threads has written down why
    except BaseException as error:
        outcomes[rank] = Outcome(rank=rank, error=error, traceback=traceback.format_exc())
        comm.abort(f"{type(error).__name__}: {error}")


def _stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame else ""


def _end(thread: threading.Thread) -> None:
    """Raise in the thread, the only way to end one; inside a call into C it takes effect when that returns."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Ended))
    thread.join(1.0)
