"""Ranks as threads of this process."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from paceline.comm.thread_comm import ThreadsComm, make_threads
from paceline.launch.outcome import Outcome, RankError


class _EndThread(BaseException):
    """Raised in a thread that is still running at the deadline."""


class Running:
    """The ranks whose threads may still be ended; one that has left is let alone, nothing would catch it there."""

    def __init__(self, world_size: int) -> None:
        self._ranks = set(range(world_size))
        self._lock = threading.Lock()

    def leave(self, rank: int) -> None:
        """Say that a rank is done; if it was ended just before, that is raised here at the latest."""
        with self._lock:
            self._ranks.remove(rank)

    def end(self, rank: int, thread: threading.Thread) -> None:
        """Raise in the thread, the only way to end one; inside a call into C it takes effect when that returns."""
        with self._lock:
            if rank in self._ranks:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_EndThread)
                )


def run_threads(function: Callable[..., Any], world_size: int, args: Sequence[Any], deadline: float) -> list[Outcome]:
    """Run the function on threads and return how each ended."""
    comms, running = make_threads(world_size, deadline), Running(world_size)
    outcomes: dict[int, Outcome] = {}
    threads = [
        threading.Thread(
            target=_run, args=(function, comm, args, outcomes, running), name=f"rank {comm.rank}", daemon=True
        )
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
            running.end(rank, threads[rank])
            threads[rank].join(1.0)
    for rank, stack in stacks.items():
        reason = f"rank {rank} was still running after {deadline} s"
        outcomes[rank] = Outcome(rank=rank, error=RankError(reason), timed_out=True, stacks=stack)
    return [outcomes[rank] for rank in range(world_size)]


def _run(
    function: Callable[..., Any],
    comm: ThreadsComm,
    args: Sequence[Any],
    outcomes: dict[int, Outcome],
    running: Running,
) -> None:
    with suppress(_EndThread):  # run_threads has written down why
        outcomes[comm.rank] = _outcome(function, comm, args)
        running.leave(comm.rank)


def _outcome(function: Callable[..., Any], comm: ThreadsComm, args: Sequence[Any]) -> Outcome:
    try:
        return Outcome(rank=comm.rank, value=function(comm, *args))
    except _EndThread:
        raise
    except BaseException as error:
        comm.abort(f"{type(error).__name__}: {error}")
        return Outcome(rank=comm.rank, error=error, traceback=traceback.format_exc())


def _stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame else ""
