"""Ranks that fail, hang, exit or are killed: functions at the top of a module, which every process can import."""

from __future__ import annotations

import mmap
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from paceline.comm import Comm


def raise_on(comm: Comm, rank: int) -> int:
    if comm.rank == rank:
        raise KeyError(f"no such sample on rank {comm.rank}")
    comm.barrier()
    return comm.rank


def sleep_on(comm: Comm, rank: int) -> None:
    if comm.rank == rank:
        for _ in range(6000):  # a thread can be ended between two sleeps only
            time.sleep(0.1)
    comm.barrier()


def spin_on(comm: Comm, rank: int) -> None:
    while comm.rank == rank:
        pass
    comm.barrier()


def sleep_on_a_segment(comm: Comm, name: str) -> None:
    """Hold shared memory as an MPI does that has no time to remove its file."""
    with (Path("/dev/shm") / f"{name}{comm.rank}").open("w+b") as file:
        file.truncate(4096)
        mapped = mmap.mmap(file.fileno(), 4096)
    with mapped:
        time.sleep(600)


def die_on(comm: Comm, rank: int, number: int) -> None:
    if comm.rank == rank:
        os.kill(os.getpid(), number)
        time.sleep(600)
    comm.barrier()


def exit_on(comm: Comm, rank: int, code: int) -> str:
    print(f"rank {comm.rank} was here")
    sys.stdout.flush()
    if comm.rank == rank:
        sys.exit(code)
    return "stayed"


def vanish_on(comm: Comm, rank: int) -> str:
    if comm.rank == rank:
        os._exit(7)
    return "stayed"


def return_lock(comm: Comm) -> Any:
    import threading

    return threading.Lock()


class StubbornError(Exception):
    """An exception that goes into a pickle and does not come out."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def raise_stubborn(comm: Comm) -> None:
    raise StubbornError(1, 2)


def interrupt_parent(comm: Comm, parent: int) -> None:
    if comm.rank == 0:
        os.kill(parent, signal.SIGINT)
    time.sleep(600)


def all_reduce_until_told(comm: Comm, rank: int) -> int:
    """One rank fails in the middle of a loop of collectives."""
    for step in range(10):
        if comm.rank == rank and step == 5:
            raise RuntimeError("out of line")
        comm.all_reduce(np.array([1]))
    return 10


def abort_on(comm: Comm, rank: int) -> None:
    if comm.rank == rank:
        comm.abort("enough")
        for _ in range(6000):
            time.sleep(0.1)
    comm.barrier()
    comm.barrier()
