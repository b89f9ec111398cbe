"""Reads /proc: the one place that knows its files. It only reads; nothing here ends or changes a process.

A process may end at any moment, also between two reads. Functions that return a single thing about a process raise
OSError then; those that collect over many processes leave it out.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_END_SECONDS = 5.0  # how long a killed process may take to be gone
_POLL_SECONDS = 0.01
_EXITING = 0x4  # a flag of a process that is on its way out
_MASKS = (b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn", b"SigCgt")
_ENDING_SIGNALS = sum(
    1 << (number - 1) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
)  # those by which people and launchers end a process


class ProcessStat(NamedTuple):
    """What /proc/PID/stat says of a process.

    Attributes:
        name: The first 15 bytes of its name, which may end in the middle of a character.
        state: R, S, D, T, Z ...
        parent: The process that started it, or that has taken it over.
        processor_ticks: How long it had a processor, in clock ticks.
        start_time: When it began, in clock ticks since the machine did; with the pid it names the process for good.
        memory_pages: Pages of memory that it has.
        flags: What the kernel remembers of it.
        status: How it ended, as wait gives it; 0 while it runs.
    """

    name: str
    state: str
    parent: int
    processor_ticks: int
    start_time: int
    memory_pages: int
    status: int
    flags: int = 0


def read_stat(pid: int) -> ProcessStat:
    """Return what the kernel says of a process. Raise OSError if it is not there any more."""
    # Read as bytes and from the end: a name may be cut in a character, and may itself hold spaces and parentheses.
    head, _, rest = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")
    fields = rest.split()
    try:
        return ProcessStat(
            name=head.partition(b"(")[2].decode(errors="replace"),
            state=fields[0].decode(),
            parent=int(fields[1]),
            processor_ticks=int(fields[11]) + int(fields[12]),
            start_time=int(fields[19]),
            memory_pages=int(fields[21]),
            status=int(fields[49]),
            flags=int(fields[6]),
        )
    except (IndexError, ValueError):  # it ended while we read
        raise ProcessLookupError(f"process {pid} has ended") from None


def start_time(pid: int) -> int:
    """Return when a process began, in clock ticks since the machine did; with the pid it names the process."""
    return read_stat(pid).start_time


def is_there(pid: int) -> bool:
    """Say whether there is a process of that number, even one that has ended and that nobody has waited for."""
    return (_PROC / str(pid)).exists()


def is_alive(pid: int) -> bool:
    """Say whether a process is there and has not ended."""
    try:
        return read_stat(pid).state not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # anything else says nothing of the process
        return False


def wait_until_gone(pids: Iterable[int]) -> None:
    """Wait until processes that were told to end have, but not for long."""
    pids, end = list(pids), time.monotonic() + _END_SECONDS
    while any(is_alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)


def all_pids() -> Iterator[int]:
    """Return the numbers of all processes."""
    return (int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit())


def is_exiting(pid: int) -> bool:
    """Say whether a process is ending or has ended. Raise OSError if it is not there any more."""
    return bool(read_stat(pid).flags & _EXITING)


def is_being_ended(pid: int) -> bool:
    """Say whether a process is ending, has ended, or has got a signal that ends it and has not come to it yet."""
    try:
        lines = (_PROC / str(pid) / "status").read_bytes().splitlines()
        masks = {key: int(value, 16) for key, _, value in (line.partition(b":") for line in lines) if key in _MASKS}
        pending = masks.get(b"SigPnd", 0) | masks.get(b"ShdPnd", 0)
        kept = masks.get(b"SigBlk", 0) | masks.get(b"SigIgn", 0) | masks.get(b"SigCgt", 0)
        return bool(pending & ~kept & _ENDING_SIGNALS) or is_exiting(pid)
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False  # it may not be read


def children_of(roots: Iterable[int], *, spared: Collection[int] = ()) -> list[int]:
    """Return all processes that these have started, directly or not, without some and what those have started."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        with suppress(OSError):
            children.setdefault(read_stat(pid).parent, []).append(pid)
    descendants: list[int] = []
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in spared:
                descendants.append(child)
                waiting.append(child)
    return descendants


def ancestors_of(pid: int) -> Iterator[tuple[int, ProcessStat]]:
    """Return a process, its parent and so on, up to the first of all or to one that may not be read."""
    with suppress(OSError):
        while pid > 1:
            stat = read_stat(pid)
            yield pid, stat
            pid = stat.parent


def command_of(pid: int) -> tuple[str, ...]:
    """Return the words of the command that a process runs; none for a kernel thread or one that has ended."""
    return tuple((_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1])


def environ_of(pid: int) -> dict[str, str]:
    """Return the environment a process was started with; empty if it may not be read."""
    with suppress(OSError):
        parts = (_PROC / str(pid) / "environ").read_bytes().decode(errors="replace").split("\0")
        return dict(part.partition("=")[::2] for part in parts if "=" in part)
    return {}


def user_of(pid: int) -> int:
    """Return the number of the user a process belongs to."""
    return (_PROC / str(pid)).stat().st_uid


def folder_of(pid: int) -> str:
    """Return the working folder of a process; empty if it may not be read."""
    with suppress(OSError):
        return os.readlink(_PROC / str(pid) / "cwd")
    return ""


def kernel_wait(pid: int) -> str:
    """Return the kernel function in which a process sleeps; empty if it does not, or may not be read."""
    with suppress(OSError):
        return (_PROC / str(pid) / "wchan").read_text().strip().removeprefix("0")
    return ""


def processor_seconds(pid: int) -> float:
    """Return how long the threads of a process have had a processor; finer than clock ticks."""
    return _of_threads(pid, 0)


def starved_seconds(pid: int) -> float:
    """Return how long the threads of a process have been ready to run while others had the processors."""
    return _of_threads(pid, 1)


def _of_threads(pid: int, column: int) -> float:
    """Return the sum of a column of the scheduler's figures; 0 for a process that has ended."""
    total = 0
    with suppress(OSError):
        for task in os.scandir(_PROC / str(pid) / "task"):
            with suppress(OSError, ValueError, IndexError):
                total += int(Path(task.path, "schedstat").read_text().split()[column])
    return total / 1e9


class ThreadActivity(NamedTuple):
    """What one thread does, as the kernel sees it.

    Attributes:
        state: R, S, D, T ...
        seconds: How long it has had a processor.
        wait: The kernel function in which it sleeps; empty if it does not, or may not be read.
    """

    state: str
    seconds: float
    wait: str


def thread_activities(pid: int) -> dict[int, ThreadActivity]:
    """Return what each thread of a process does, by its number; those that end meanwhile are left out."""
    found = {}
    with suppress(OSError):
        for task in os.scandir(_PROC / str(pid) / "task"):
            with suppress(OSError, ValueError, IndexError):
                state = Path(task.path, "stat").read_bytes().rpartition(b")")[2].split()[0].decode()
                seconds = int(Path(task.path, "schedstat").read_text().split()[0]) / 1e9
                wait = Path(task.path, "wchan").read_text().strip().removeprefix("0")
                found[int(task.name)] = ThreadActivity(state, seconds, wait)
    return found


def mapped_files(pid: int) -> set[str]:
    """Return the files that a process has in its memory. Raise OSError if that may not be read."""
    lines = (_PROC / str(pid) / "maps").read_text(errors="replace").splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if "/" in line}


def ticks_to_seconds(ticks: int) -> float:
    """Return clock ticks, as the kernel counts them, in seconds."""
    return ticks / os.sysconf("SC_CLK_TCK")


def began_at(pid: int) -> float:
    """Return when a process began, in seconds since 1970."""
    since_boot = float((_PROC / "uptime").read_text().split()[0])
    return time.time() - since_boot + ticks_to_seconds(read_stat(pid).start_time)


def bytes_read(pid: int) -> tuple[int, int]:
    """Return the bytes that a process has read, and how many of them came from a device."""
    lines = dict(line.split(": ") for line in (_PROC / str(pid) / "io").read_text().splitlines())
    return int(lines["rchar"]), int(lines["read_bytes"])


def files_opened(folder: Path) -> set[str]:
    """Return the names of the files of a folder that some process that we may look at has open."""
    names = set()
    for descriptors in _PROC.glob("[0-9]*/fd"):
        with suppress(OSError):  # the process has ended, or is another user's
            for descriptor in os.listdir(descriptors):
                with suppress(FileNotFoundError):  # it was closed
                    parent, _, name = os.readlink(descriptors / descriptor).rpartition("/")
                    if parent == str(folder):
                        names.add(name.removesuffix(" (deleted)"))
    return names


def files_mapped(folder: Path, *, by: Iterable[int] | None = None) -> set[str]:
    """Return the names of the files of a folder that some process that we may look at has mapped, or one of these.

    If no processes are given, those that are ending do not count: they have it for a moment only.
    """
    names = set()
    for pid in all_pids() if by is None else by:
        with suppress(OSError):  # the process has ended, or is another user's
            mapped = {
                line.rpartition("/")[2].removesuffix(" (deleted)")
                for line in (_PROC / f"{pid}/maps").read_text(errors="replace").splitlines()
                if f"{folder}/" in line
            }
            if mapped and not (by is None and is_being_ended(pid)):
                names |= mapped
    return names


def out_of_memory_kills() -> int:
    """Return how many processes the kernel has killed for memory since it started; 0 if it does not say."""
    with suppress(OSError, ValueError):
        for line in (_PROC / "vmstat").read_text().splitlines():
            name, _, count = line.partition(" ")
            if name == "oom_kill":
                return int(count)
    return 0


def ptrace_scope() -> int:
    """Return how far the kernel's Yama module limits who may look into a process; 0 is not at all."""
    with suppress(OSError, ValueError):
        return int((_PROC / "sys/kernel/yama/ptrace_scope").read_text())
    return 0


def first_outgoing_port() -> int:
    """Return the first of the ports that the system gives to outgoing connections."""
    with suppress(OSError, ValueError, IndexError):
        return int((_PROC / "sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return 32_768
