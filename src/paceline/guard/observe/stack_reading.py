"""Reads native stacks: which function of MPI or gloo a thread is inside, who called it, and from which line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from paceline.guard.rank.call_sites import is_library
from paceline.guard.shared_memory.operations import BY_NAME, MEETINGS_OF_JOBS, Operation
from paceline.guard.verdict.compiled_call import CompiledCall
from paceline.process.native_stacks import Frame, Thread

_STANDARD_LIBRARY = re.compile(r"/lib(64)?/(python|pypy)3[.\d]*/")
_MPI_FUNCTION = re.compile(r"^P?MPI_([A-Z]\w*?)(_c)?$")
_GLOO_FUNCTION = re.compile(r"^(gloo::[\w:]+|c10d::(?:(?!\w*NCCL)\w+::)*(?!\w*NCCL)\w*Work\w*::(?:wait|synchronize))")
# The MPI library, what carries its messages, and the system's libraries. Anything else inside an MPI function may
# compute: a reduction of the user's own, a callback.
_CARRIES_MESSAGES = re.compile(
    r"^(lib(p?mpi|open-pal|open-rte|prrte|pmix|uc[tpsm]|fabric|psm|ibverbs|rdmacm|mlx|efa|event|hwloc|xpmem|numa|nl-"
    r"|c[.-]|pthread|rt[.-]|gcc_s)|mca_|ld-|\[?(linux-)?vdso)"
)
# they may end by what another job does, of which nothing is known
_WITH_ANOTHER_JOB = (*MEETINGS_OF_JOBS, "Disconnect")


def is_not_own(file: str) -> bool:
    """Say whether a file belongs to Python or an installed package, in whatever environment."""
    return is_library(file, ()) or _STANDARD_LIBRARY.search(file) is not None


def own_frames(thread: Thread) -> Sequence[Frame]:
    """Return the frames of the user's own code, innermost first; the innermost of any Python code if there is none."""
    python = [frame for frame in thread.frames if not frame.is_native]
    return [frame for frame in python if not is_not_own(frame.file)] or python[:1]


def find_compiled_call(thread: Thread, shown_path: Callable[[str], str] = str) -> CompiledCall | None:
    """Return the outermost function of MPI or gloo that a thread is inside; None if it is in none.

    Args:
        thread: The thread, with native frames.
        shown_path: How the path of a file is shown.
    """
    own = next(iter(own_frames(thread)), None)
    site = f"{shown_path(own.file)}:{own.line}" if own is not None else ""
    inside = [number for number, frame in enumerate(thread.frames) if _mpi_name(frame) is not None]
    if inside:
        innermost, outermost = inside[0], inside[-1]
        operation = _operation(_mpi_name(thread.frames[innermost]) or "")
        carries = all(map(_carries_messages, thread.frames[:innermost]))
        return CompiledCall(
            function=f"MPI_{_mpi_name(thread.frames[outermost])}", library=_caller(thread, outermost), site=site,
            family=operation.family if operation is not None else None,
            waits=operation is not None and operation.blocks and carries,
        )  # fmt: skip
    for number, frame in reversed(list(enumerate(thread.frames))):
        found = _GLOO_FUNCTION.match(frame.function) if frame.is_native else None
        if found is not None:  # it ends by itself, after its own time limit, so it does not certainly wait for ever
            return CompiledCall(function=found.group(1), library=_caller(thread, number), site=site)
    return None


def _mpi_name(frame: Frame) -> str | None:
    found = _MPI_FUNCTION.match(frame.function) if frame.is_native else None
    return found.group(1) if found is not None else None


def _operation(name: str) -> Operation | None:
    """Return what is known of an MPI function by its name in C: Barrier, Comm_split."""
    known = BY_NAME.get(name)
    if known is None and name.startswith("Comm_"):
        known = BY_NAME.get(name.removeprefix("Comm_").capitalize())
    return None if known is not None and known.name in _WITH_ANOTHER_JOB else known


def _carries_messages(frame: Frame) -> bool:
    return frame.is_native and _CARRIES_MESSAGES.match(frame.library) is not None


def _caller(thread: Thread, number: int) -> str:
    """Return the library that called the function of a frame; empty if Python did."""
    caller = next(iter(thread.frames[number + 1 :]), None)
    if caller is None or not (caller.is_native or is_not_own(caller.file)):
        return ""
    return "mpi4py" if "/mpi4py/" in caller.code_file else caller.library
