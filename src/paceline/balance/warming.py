"""Compiles the kernels ahead of time, so that no training step waits for it."""

from __future__ import annotations

import os
import threading

from paceline.balance.partition import partition
from paceline.balance.partition_values import Method

_THREADS: list[threading.Thread] = []  # the latest one that warms up; empty until the first


def warm_up(*, in_background: bool = False) -> threading.Thread | None:
    """Compile what `partition` needs, or load it from disk, before the first step has to wait for it.

    Returns:
        The thread that does it, if it is done in the background.
    """
    if in_background:
        return _start_thread()
    # between them these three call every kernel
    partition([3, 2, 1, 1], 2, Method.SWAP_IN_PLACE, placement=[0, 0, 1, 1], tolerance=0.0)
    partition([3, 2, 1, 1], 2, Method.LONGEST_FIRST)
    partition([3, 2, 1, 1], 2, Method.DIFFERENCING)
    return None


def _start_thread() -> threading.Thread:
    """Warm up in a thread. A process that forks meanwhile waits for it: the child would inherit numba's locks."""
    if not _THREADS:
        os.register_at_fork(before=_wait_for_threads)
    thread = threading.Thread(target=warm_up, name="paceline-warm-up")
    thread.start()
    _THREADS[:] = [thread]
    return thread


def _wait_for_threads() -> None:
    for thread in _THREADS:
        if thread is not threading.current_thread():  # a thread cannot wait for itself
            thread.join()
