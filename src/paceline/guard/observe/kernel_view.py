"""What the kernel says of processes: whether they live, how they ended, what they do now; and how to end them all.

It knows nothing of ranks or rings.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from paceline.process.procfs import (
    children_of,
    is_alive,
    is_being_ended,
    is_exiting,
    out_of_memory_kills,
    processor_seconds,
    read_stat,
    start_time,
    starved_seconds,
)

_INFO = struct.Struct("<QQ11Ii")  # struct pidfd_info
_INFO_EXIT = 1 << 3
_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11  # Linux 6.15 and later tell a watcher the exit code
_END_SECONDS = 5.0
_CLOSING_SECONDS = 1.0  # for a process that has closed its files to end
_MOST_PID = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """What a process does, as the kernel sees it."""

    state: str  # R, S, D, T, Z ...
    rss_bytes: int


class ProcessHandle:
    """A process that is not our child, held by a descriptor: its number alone may come to name another process."""

    closed_ns = 0  # when its files were closed, if that was seen
    with_others = False  # others of its host were being ended, too, when that was seen: somebody may end them all

    def __init__(self, pid: int, began: int) -> None:
        self.pid = pid
        self.ended_ns = 0  # when we saw that it had ended; 0 while it lives
        self.alive_ns = 0  # when we last saw it alive, as far as that is noted; 0 if we never did
        self.status: int | None = None  # as wait gives it, once it has ended and if the kernel tells us
        self.note_ends: Callable[[], None] | None = None  # notes all ends so far in their order, this one among them
        self._descriptor: int | None = None
        self._began = began
        if self._is_elsewhere:
            return
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self.note_end(time.monotonic_ns())
        except OSError:
            pass  # no descriptor, for example because too many are open: then its start time tells it from another
        if not self.ended_ns and _began(pid) != began:
            self.close()
            self.note_end(time.monotonic_ns())
        if not self.ended_ns:
            self.note_alive(time.monotonic_ns())

    def note_alive(self, at_ns: int) -> None:
        """Remember that the process was alive at this time."""
        self.alive_ns = max(self.alive_ns, min(at_ns, self.closed_ns or at_ns))

    def note_closed(self, at_ns: int) -> None:
        """Remember when its files were closed: it ends, and others may end because of it from now on."""
        self.closed_ns = self.closed_ns or at_ns

    def note_end(self, at_ns: int) -> None:
        """Remember when the process was first seen to have ended."""
        self.ended_ns = self.ended_ns or at_ns

    @property
    def descriptor(self) -> int | None:
        """What becomes readable when the process ends; None once it has."""
        return self._descriptor if not self.ended_ns else None

    def has_ended(self) -> bool:
        """Say whether the process has ended, and ask how."""
        if not self.ended_ns:
            if self.note_ends is not None:
                self.note_ends()
            elif self._is_gone():
                self.note_end(time.monotonic_ns())
        if self.ended_ns:
            self.ask_status()
        return bool(self.ended_ns)

    def ask_status(self) -> None:
        """Ask how the process ended, if that is not known yet."""
        if self.status is None and self._descriptor is not None:
            self.status = self._read_status()

    @property
    def _is_elsewhere(self) -> bool:
        """Whether it is of another host, as its number in a mirror says: only the head knows what becomes of it."""
        return self.pid > _MOST_PID

    def _is_gone(self) -> bool:
        if self._is_elsewhere:
            return False
        if self._descriptor is None:
            return _began(self.pid) != self._began
        ends = select.poll()  # not select, which knows no descriptor beyond 1023
        ends.register(self._descriptor, select.POLLIN)
        return bool(ends.poll(0))

    def _read_status(self) -> int | None:
        """Return the exit status: of a zombie from /proc, of one that was reaped from its descriptor if Linux can."""
        with suppress(OSError):
            stat = read_stat(self.pid)
            if stat.state == "Z":
                return stat.status
        assert self._descriptor is not None
        answer = bytearray(_INFO.pack(_INFO_EXIT, *([0] * 13)))
        with suppress(OSError):
            fcntl.ioctl(self._descriptor, _GET_INFO, answer)
            mask, *_, status = _INFO.unpack(answer)
            if mask & _INFO_EXIT:
                return int(status)
        return None

    def activity(self) -> Activity | None:
        """Return what the process does now, or None if it has exited."""
        return activity(self.pid)

    def processor_seconds(self) -> float:
        """Return for how long it has had a processor, in all."""
        return processor_seconds(self.pid)

    def starved_seconds(self) -> float:
        """Return for how long it has wanted a processor and had none, in all."""
        return starved_seconds(self.pid)

    def memory_kills_since(self, before: int) -> int:
        """Return how many processes its machine has killed for memory since there were `before` of them."""
        return out_of_memory_kills() - before

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be known of it now."""
        return False

    @property
    def host(self) -> str:
        """The name of the host that it runs on; empty if it is this one."""
        return "another host" if self._is_elsewhere else ""

    def kill(self) -> None:
        """End the process."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send the process a signal, unless it has ended."""
        with suppress(OSError):
            if self._descriptor is not None and not self.ended_ns:
                signal.pidfd_send_signal(self._descriptor, number)
            elif not self.ended_ns and _began(self.pid) == self._began:
                os.kill(self.pid, number)

    def close(self) -> None:
        """Let go of the process."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class ProcessEnds:
    """The ends of some processes, in the order in which they came about."""

    def __init__(self) -> None:
        self._kernel = select.epoll()
        self._awaited: dict[int, ProcessHandle] = {}  # by descriptor: processes that have not ended
        self._lifelines: dict[int, ProcessHandle] = {}  # by descriptor: those that hold their files
        self._closing: list[ProcessHandle] = []  # those that have closed them, and may not have ended
        self._asked_ns = 0  # when the kernel was last asked who has ended

    def register(self, process: ProcessHandle, lifeline: int | None = None) -> None:
        """Await the end of a process.

        Args:
            process: The process.
            lifeline: A pipe that is closed when it is; it is ours from now on.
        """
        if process.descriptor is not None:
            self._awaited[process.descriptor] = process
            self._kernel.register(process.descriptor, select.EPOLLIN)
            process.note_ends = self.note
            if lifeline is not None:
                self._lifelines[lifeline] = process
                self._kernel.register(lifeline, select.EPOLLHUP)
        elif lifeline is not None:
            os.close(lifeline)

    @property
    def descriptor(self) -> int:
        """What is readable when a process has ended."""
        return self._kernel.fileno()

    def note(self, seconds: float = 0.0) -> None:
        """Wait for the given time, or until a process has ended; note which have, before anything else is done.

        One that has closed its files is waited for: it may be why others have ended, and was before them.
        """
        self._take(seconds)
        deadline = time.monotonic() + _CLOSING_SECONDS
        while any(not process.ended_ns for process in self._closing) and time.monotonic() < deadline:
            self._take(_CLOSING_SECONDS / 10)
        self._closing.clear()

    def note_coming(self) -> None:
        """Wait for processes that have got a signal which ends them: they may want a processor for it."""
        deadline = time.monotonic() + _CLOSING_SECONDS
        while time.monotonic() < deadline and any(is_being_ended(process.pid) for process in self._awaited.values()):
            self.note(_CLOSING_SECONDS / 100)

    def _take(self, seconds: float) -> None:
        """Take in what the kernel lists in its order, also what happened while we were busy or had no processor."""
        asked = time.monotonic_ns()
        descriptors = [descriptor for descriptor, _ in self._kernel.poll(seconds)]
        now = time.monotonic_ns()
        ended, closed = [], []
        for number, descriptor in enumerate(descriptors):
            self._kernel.unregister(descriptor)
            process = self._lifelines.pop(descriptor, None)
            if process is None:
                ended.append((now + number, self._awaited.pop(descriptor)))
                continue
            os.close(descriptor)
            if _is_on_its_way_out(process.pid):
                process.note_closed(now + number)
                closed.append(process)
        for ended_ns, process in ended:
            process.note_alive(self._asked_ns)  # it was not among those that had ended then, or has come since
            process.note_end(ended_ns)
        self._asked_ns = asked
        for _, process in ended:
            process.ask_status()  # while the kernel still tells
        self._closing += closed
        self._note_with_others(closed)

    def _note_with_others(self, closed: list[ProcessHandle]) -> None:
        """Note whether others are being ended by the time at which some have closed their files.

        If none is, those have ended alone. Otherwise a launcher may have been quick, or somebody ends all of them.
        """
        if not closed:
            return
        gone = {process.pid for process in closed}  # a process may have been handed in twice
        others = {process.pid for process in self._lifelines.values()} - gone
        is_so = len(gone) > 1 or any(map(is_being_ended, others))
        for process in closed:
            process.with_others = is_so

    def close(self) -> None:
        """Await nobody any more."""
        for process in self._awaited.values():
            process.note_ends = None
        self._kernel.close()
        for lifeline in self._lifelines:
            os.close(lifeline)
        self._lifelines.clear()


def _is_on_its_way_out(pid: int) -> bool:
    """Say whether a process that has closed its files ends: it may also have become another program."""
    try:
        return is_exiting(pid)
    except OSError:
        return True  # it has gone


def _began(pid: int) -> int:
    try:
        return start_time(pid)
    except OSError:
        return -1


def activity(pid: int) -> Activity | None:
    """Return what a process does now, or None if it has exited."""
    try:
        stat = read_stat(pid)
    except OSError:
        return None
    return Activity(state=stat.state, rss_bytes=stat.memory_pages * os.sysconf("SC_PAGE_SIZE"))


def end_all(roots: Iterable[int], *, also: Iterable[ProcessHandle] = (), spared: Collection[int] = ()) -> None:
    """Kill everything that these processes started, and go on until nothing is left: they may start more meanwhile.

    Args:
        roots: Processes that are not killed themselves.
        also: Others that are killed.
        spared: Processes that are not killed, nor what they have started.
    """
    deadline = time.monotonic() + _END_SECONDS
    also = list(also)
    while time.monotonic() < deadline:
        living = [pid for pid in children_of(roots, spared=spared) if is_alive(pid)]
        for pid in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for process in also:
            process.kill()
        for pid in living:  # those that are our own children stay as zombies until we wait for them
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if not living and all(process.has_ended() for process in also):
            return
        time.sleep(0.005)
