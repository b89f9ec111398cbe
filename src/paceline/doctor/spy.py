"""Looks once at a process: its stacks by py-spy, and what the kernel says of it."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress

from paceline.doctor.exit_trace import PYTHON_EXIT, exit_calls
from paceline.doctor.observed_job import Look
from paceline.process.native_stacks import NoInterpreterError, SpyError, Thread, dump_command, read_answer, why_denied
from paceline.process.procfs import is_there, kernel_wait, processor_seconds, read_stat

_SECONDS = 60.0


def look_at(program: str, pid: int, *, uid: int) -> Look:
    """Take all stacks of a process, Python and native; it stands still for some tens of milliseconds."""
    calls = exit_calls(pid)
    try:
        threads = _dump(program, pid, uid, native=True)
    except NoInterpreterError:
        calls = exit_calls(pid)  # it may have ended since
        if PYTHON_EXIT not in calls:
            raise
        threads = ()
    return Look(
        threads=threads, kernel_state=_state(pid), kernel_wait=kernel_wait(pid),
        processor_seconds=processor_seconds(pid), at=time.monotonic(), exit_calls=calls,
    )  # fmt: skip


def _dump(program: str, pid: int, uid: int, *, native: bool) -> tuple[Thread, ...]:
    command = dump_command(program, pid, native=native)
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise SpyError(f"py-spy had no answer in {_SECONDS:.0f} s") from None
    try:
        return read_answer(done.returncode, done.stdout, done.stderr, pid=pid, uid=uid)
    except SpyError as error:
        if not native or done.returncode == 0 or not is_there(pid) or str(error) == why_denied(uid):
            raise
    return _dump(program, pid, uid, native=False)  # without native frames py-spy needs less


def _state(pid: int) -> str:
    with suppress(OSError):
        return read_stat(pid).state
    return ""
