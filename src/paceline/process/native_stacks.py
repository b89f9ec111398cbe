"""Stacks of a process as py-spy sees them from outside, Python and native: how to ask, and how to read the answer.

py-spy is a program of its own and need not be installed. Whoever asks runs the command, waits for it as it likes, and
hands what came back to `read_answer`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.errors import InputError, PacelineError
from paceline.process.procfs import is_there, ptrace_scope

_RANK_VARIABLES = ("rank", "i")  # other variables of the user are dropped at once
_GROUP_VARIABLES = ("args", "kwargs", "group")  # of torch's own functions: whether a call was given a group
_GROUP_FILES = ("torch/distributed/c10d_logger.py", "torch/distributed/distributed_c10d.py")
_NO_INTERPRETER = "Failed to find a python interpreter"
_DENIED = re.compile(r"permission denied|operation not permitted|EPERM|EACCES", re.IGNORECASE)


class SpyError(PacelineError):
    """The stacks of a process cannot be taken."""


class NoInterpreterError(SpyError):
    """There is no Python interpreter in the process: not yet, or not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One line of a stack."""

    function: str
    file: str
    line: int
    module: str = ""  # of a native frame: the file of machine code; `file` may then be its source
    variables: Mapping[str, str] = field(default_factory=dict)  # the few that say who and where a rank is

    @property
    def is_native(self) -> bool:
        """Whether it is machine code."""
        return bool(self.module) or ".so" in self.library or self.line == 0

    @property
    def code_file(self) -> str:
        """The file that is run: a library, or the file of Python code."""
        return self.module or self.file

    @property
    def library(self) -> str:
        """The name of the file that is run, without its folder."""
        return self.code_file.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread of a process, innermost frame first."""

    name: str
    is_main: bool
    frames: tuple[Frame, ...]
    native_id: int | None = None  # its number in the system, where py-spy tells it


def find_py_spy() -> str:
    """Return the py-spy of this environment, or of the path."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if beside.is_file() else shutil.which("py-spy")
    if found is None:
        raise InputError("this needs py-spy, which is not here: pip install 'paceline[doctor]', or pip install py-spy")
    return found


def dump_command(program: str, pid: int, *, native: bool = True, variables: bool = True) -> list[str]:
    """Return the command that writes all stacks of a process; it stands still for some tens of milliseconds."""
    asked = [*(["--locals"] if variables else []), *(["--native"] if native else [])]
    return [program, "dump", "--json", *asked, "--pid", str(pid)]


def read_answer(returncode: int, output: str, errors: str, *, pid: int, uid: int) -> tuple[Thread, ...]:
    """Return the threads that py-spy has written, or raise with the reason why it could not."""
    if returncode == 0:
        with suppress(ValueError, KeyError, TypeError):
            return tuple(_thread(value, pid) for value in json.loads(output))
        raise SpyError("py-spy gave something that cannot be read")
    if not is_there(pid):
        raise SpyError("it has ended in the meantime")
    if _DENIED.search(errors):
        raise SpyError(why_denied(uid))
    if _NO_INTERPRETER in errors:
        raise NoInterpreterError("it has no Python interpreter, and does not show that it is exiting")
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
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
    is_main = native_id == pid or name == "MainThread"
    return Thread(name=str(name), is_main=is_main, frames=frames, native_id=native_id)


def _frame(value: dict[str, Any]) -> Frame:
    names = _GROUP_VARIABLES if str(value["filename"]).endswith(_GROUP_FILES) else _RANK_VARIABLES
    variables = {
        str(local["name"]): str(local["repr"])
        for local in value.get("locals") or ()
        if local["name"] in names and local["repr"] is not None
    }
    return Frame(
        function=str(value["name"]), file=str(value["filename"]), line=int(value["line"]),
        module=str(value.get("module") or ""), variables=variables,
    )  # fmt: skip
