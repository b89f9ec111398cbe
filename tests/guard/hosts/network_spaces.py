"""The network spaces of hosts that are made of this machine: their names, which say who made them, and what a process
that was killed has left behind. Only for root."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from paceline.process.procfs import start_time

_SPACES = Path("/run/netns")
_NAME = re.compile(r"paceline-(\d+)-(\d+)-(\d+)-\w+")  # a space of processes, a process there, and when that began


def own_prefix() -> str:
    """Return what the names of this process's spaces begin with: no other process has the same, before or after it."""
    return f"paceline-{_process_space()}-{os.getpid()}-{start_time(os.getpid())}-"


def remove_stale() -> None:
    """Remove the spaces whose makers have gone, with all processes in them. Those of others are left alone."""
    for path in _SPACES.glob("paceline-*"):
        found = _NAME.fullmatch(path.name)
        if found is not None and int(found[1]) == _process_space() and not _lives(int(found[2]), int(found[3])):
            remove(path.name)


def remove(name: str) -> None:
    """Remove a space of ours, and end what runs in it."""
    listed = subprocess.run(["ip", "netns", "pids", name], check=False, capture_output=True, text=True).stdout
    for pid in map(int, listed.split()):
        _kill_within(name, pid)
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _kill_within(name: str, pid: int) -> None:
    """Kill a process, unless it has ended meanwhile and its number is that of a process elsewhere."""
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if os.path.samefile(_SPACES / name, f"/proc/{pid}/ns/net"):
            signal.pidfd_send_signal(held, signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has just ended, or somebody else has removed the space
    finally:
        os.close(held)


def _lives(pid: int, began: int) -> bool:
    try:
        return start_time(pid) == began
    except OSError:
        return False


def _process_space() -> int:
    return os.stat("/proc/self/ns/pid").st_ino
