"""Takes the stacks of a process with py-spy, and says why where that is not possible."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from paceline.doctor.exit_trace import PYTHON_EXIT, exit_calls
from paceline.doctor.observed_job import Frame, Look, Thread
from paceline.errors import InputError, PacelineError
from paceline.process.procfs import is_there, kernel_wait, processor_seconds, ptrace_scope, read_stat

_SECONDS = 60.0
_RANK_VARIABLES = ("rank", "i")  # other variables of the user are dropped at once
_GROUP_VARIABLES = ("args", "kwargs", "group")  # of torch's own functions: whether a call was given a group
_GROUP_FILES = ("torch/distributed/c10d_logger.py", "torch/distributed/distributed_c10d.py")
_NO_INTERPRETER = "Failed to find a python interpreter"
_DENIED = re.compile(r"permission denied|operation not permitted|EPERM|EACCES", re.IGNORECASE)


class SpyError(PacelineError):
    """The stacks of a process cannot be taken."""


class NoInterpreterError(SpyError):
    """There is no Python interpreter in the process: not yet, or not any more."""


def find_py_spy() -> str:
    """Return the py-spy of this environment, or of the path."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.is_file() else shutil.which("py-spy")
    if found is None:
        raise InputError("this needs py-spy, which is not here: pip install 'paceline[doctor]', or pip install py-spy")
    return found


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
    command = [program, "dump", "--json", "--locals", *(["--native"] if native else []), "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise SpyError(f"py-spy had no answer in {_SECONDS:.0f} s") from None
    if done.returncode == 0:
        with suppress(ValueError, KeyError, TypeError):
            return tuple(_thread(value, pid) for value in json.loads(done.stdout))
        raise SpyError("py-spy gave something that cannot be read")
    if not is_there(pid):
        raise SpyError("it has ended in the meantime")
    if _DENIED.search(done.stderr):
        raise SpyError(why_denied(uid))
    if native:
        return _dump(program, pid, uid, native=False)  # without native frames py-spy needs less
    if _NO_INTERPRETER in done.stderr:
        raise NoInterpreterError("it has no Python interpreter, and does not show that it is exiting")
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    raise SpyError(f"py-spy says: {lines[0] if lines else 'nothing'}")


def why_denied(uid: int) -> str:
    """Say why we may not look at a process, and what to do."""
    if os.geteuid() != 0 and uid != os.geteuid():
        return f"it belongs to another user (uid {uid}); look as that user, or as root"
    scope = ptrace_scope()
    if scope > 0 and os.geteuid() != 0:
        return (
            f"the kernel lets only parents look at a process (kernel.yama.ptrace_scope = {scope}); "
            "run it as root: sudo env PATH=$PATH paceline doctor ..., or set it to 0"
        )
    return "the kernel does not permit it; in a container, start that with --cap-add=SYS_PTRACE, otherwise try as root"


def _thread(value: dict[str, Any], pid: int) -> Thread:
    frames = tuple(_frame(frame) for frame in value["frames"])
    native_id = value.get("os_thread_id")
    name = value.get("thread_name") or f"thread {native_id or value.get('thread_id')}"
    return Thread(name=str(name), is_main=native_id == pid or name == "MainThread", frames=frames)


def _frame(value: dict[str, Any]) -> Frame:
    names = _GROUP_VARIABLES if str(value["filename"]).endswith(_GROUP_FILES) else _RANK_VARIABLES
    variables = {
        str(local["name"]): str(local["repr"])
        for local in value.get("locals") or ()
        if local["name"] in names and local["repr"] is not None
    }
    return Frame(function=str(value["name"]), file=str(value["filename"]), line=int(value["line"]), variables=variables)


def _state(pid: int) -> str:
    with suppress(OSError):
        return read_stat(pid).state
    return ""
