"""Ends the steps of a batch system through the client that has started them, which gives back what it was granted.

A client that is killed leaves its allocation taken until the time limit, and what runs on other machines running.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress

from paceline.process.procfs import children_of, is_alive, read_stat

_CLIENTS = ("srun", "salloc")
_SECONDS = 15.0  # for a client to end; it waits itself until its step has ended on all machines
_POLL_SECONDS = 0.01


def batch_clients(root: int) -> list[int]:
    """Return the clients of a batch system that a process has started; one that another has started is not told."""
    found = []
    for pid in children_of([root]):
        with suppress(OSError):  # it has just ended
            stat = read_stat(pid)
            if stat.name in _CLIENTS and read_stat(stat.parent).name not in _CLIENTS and is_alive(pid):
                found.append(pid)
    return found


def end_clients(clients: Iterable[int]) -> None:
    """Have clients end their steps, and wait until they have."""
    clients, deadline = list(clients), time.monotonic() + _SECONDS
    for pid in clients:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    while any(is_alive(pid) for pid in clients) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
