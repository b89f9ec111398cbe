"""What could release ranks and is not one of them: other MPI processes, a device, threads that are not counted.

Where anything of the kind is there, or cannot be ruled out, ranks that stand still are not certainly stuck.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from paceline.process.procfs import (
    ThreadActivity,
    ancestors_of,
    children_of,
    command_of,
    is_alive,
    mapped_files,
    read_stat,
    thread_activities,
)

_DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/infiniband/")
_IDLE_SECONDS = 0.05  # that a thread which only waits may have of the processor between two looks


def uses_device(pid: int) -> bool:
    """Say whether a process uses a device that works by itself (a GPU, an adapter), or may not be looked at."""
    try:
        return any(name.startswith(_DEVICES) for name in mapped_files(pid))
    except OSError:
        return True


def uses_mpi(pid: int) -> bool:
    """Say whether a process has an MPI library in its memory, or may not be looked at."""
    try:
        return any(os.path.basename(name).startswith(("libmpi", "libpmpi")) for name in mapped_files(pid))
    except OSError:
        return is_alive(pid)


def other_mpi_processes(ranks: Collection[int]) -> list[int]:
    """Return processes of the same job that use MPI and are not ranks: those that a rank has spawned, for example.

    Args:
        ranks: The processes of the job's ranks.
    """
    ours = {os.getpid(), os.getppid()} - set(ranks)  # the launcher is a child of ours, or of our keeper
    lines = [line for line in map(_line_of, ranks) if line]
    roots = {next((pid for pid in line if pid in ours), line[-1]) for line in lines}
    others = [pid for pid in children_of(roots) if pid not in ranks and pid not in ours]
    return [pid for pid in others if uses_mpi(pid) and not _is_fork_of(pid, ranks)]


def _line_of(pid: int) -> list[int]:
    return [ancestor for ancestor, _ in ancestors_of(pid)]


def _is_fork_of(pid: int, ranks: Collection[int]) -> bool:
    """Say whether a process is a copy that a rank has made of itself, as multiprocessing does: it may not use MPI."""
    try:
        parent = read_stat(pid).parent
        return parent in ranks and command_of(parent) == command_of(pid)
    except OSError:
        return True  # it has ended


def at_work(before: dict[int, ThreadActivity], now: dict[int, ThreadActivity], but: Iterable[int]) -> bool:
    """Say whether a thread of a process has done something between two looks, or will by itself.

    Args:
        before: What its threads did at the first look.
        now: What they do at the second.
        but: The threads that are known to stand in a call.
    """
    for number in now.keys() - set(but):
        thread, earlier = now[number], before.get(number)
        if earlier is None or thread.state != "S" or "nanosleep" in thread.wait:
            return True
        if thread.seconds - earlier.seconds > _IDLE_SECONDS:
            return True
    return False


__all__ = ["at_work", "other_mpi_processes", "thread_activities", "uses_device", "uses_mpi"]
