"""Reads a stack: which collective a rank is in, from which line of the user's code, and what it does if in none."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from enum import Enum

from paceline.doctor.exit_trace import MPI_EXIT, PYTHON_EXIT
from paceline.doctor.observed_job import Look, SeenRank
from paceline.guard.observe.stack_reading import is_not_own, own_frames
from paceline.guard.shared_memory.operations import BY_NAME, Family, Needs
from paceline.process.native_stacks import Frame, Thread

_TORCH_FILES = ("torch/distributed/distributed_c10d.py", "torch/distributed/_functional_collectives.py")
_MPI_SYMBOL = re.compile(r"^P?MPI_([A-Z]\w*?)(_c)?$")
_NCCL_SYMBOL = re.compile(r"^p?nccl([A-Z][A-Za-z]+)$")
_WORK_WAIT = re.compile(r"^c10d::(\w*::)*\w*Work\w*::(wait|synchronize)")
_REDUCER = re.compile(r"^c10d::Reducer::")
_REDUCER_END = re.compile(r"^c10d::Reducer::finalize_backward")
_GPU_WAIT = re.compile(r"^cu(da)?\w*Synchronize")
_EXIT_FRAMES = (("/threading.py", "_shutdown"), ("multiprocessing/util.py", "_exit_function"))
_DOING = {"D": "waits for a disk or another device", "T": "was stopped by a signal", "t": "is held by a debugger"}
_KERNEL = {
    "nanosleep": "sleeps",
    "futex": "waits for a lock or another thread",
    "pipe": "reads from or writes to a pipe",
    "do_wait": "waits for a process that it started",
    "poll": "waits for a socket or a file",
    "select": "waits for a socket or a file",
    "skb": "waits for a socket",
    "tty": "waits for input from the terminal",
    "n_tty": "waits for input from the terminal",
}


class WayOut(Enum):
    """How far a rank has come that leaves the job and will make no more calls."""

    MPI_FINALIZE = "has ended its script and is in MPI_Finalize", "have ended their scripts and are in MPI_Finalize"
    INTERPRETER_GONE = (
        "has ended its script, and its interpreter is gone",
        "have ended their scripts, and their interpreters are gone",
    )
    EXITING = "has ended its script and is exiting", "have ended their scripts and are exiting"
    FINALIZE_CALL = "has called MPI_Finalize", "have called MPI_Finalize"
    DESTROY_CALL = "is in destroy_process_group", "are in destroy_process_group"

    @property
    def one(self) -> str:
        """What is said of one rank."""
        return self.value[0]

    @property
    def many(self) -> str:
        """What is said of several ranks."""
        return self.value[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPosition:
    """Where a rank is: the call it is inside, and the line of the user's code that made it."""

    call: str | None  # the operation it is inside, None if it is in none that is known
    family: str = ""  # torch or mpi
    role: Family | None = None  # collective, send, receive ...; None if that is not known
    needs_all: bool = False  # nobody leaves it before all have entered
    on_world: bool = False  # whether it is certainly on the group of all ranks
    site: str | None = None  # file:line of the user's own code
    path: tuple[str, ...] = ()  # file:line of all frames of the user's own code, innermost first
    detail: str = ""
    way_out: WayOut | None = None  # how a rank leaves that makes no more calls; None if it may still make one

    @property
    def is_collective(self) -> bool:
        """Whether it is in a collective."""
        return self.role is Family.COLLECTIVE

    @property
    def operation_key(self) -> str:
        """What must differ for two calls to be certainly different: Bcast and bcast may both be part of one."""
        return f"{self.family} {self.call}".lower()


def find_position(seen: SeenRank) -> StackPosition:
    """Say where the main thread of a rank stands."""
    look, main = seen.second, seen.second.main
    if main is None and look.threads:
        return StackPosition(call=None, detail="its main thread cannot be seen")
    path = _path(main, seen.cwd) if main is not None else ()
    site = path[0] if path else None
    call = _call(main) if main is not None else None
    at_exit = _is_at_exit(look)
    if call is not None and call.call != "Finalize":
        detail = "; ".join(filter(None, [call.detail, "while it exits" if at_exit else ""]))
        return replace(call, site=site, path=path, detail=detail)
    others = [(thread, _call(thread)) for thread in look.threads if not thread.is_main]
    also = next((f"; its thread {thread.name} is in {found.call}" for thread, found in others if found is not None), "")
    if at_exit:
        # until the interpreter has gone, another thread of the rank may still make calls
        at_work = [thread.name for thread, found in others if found is not None or _is_of_user(thread)]
        if at_work:
            return StackPosition(
                call=None, site=site, detail=f"its script is over, its thread {at_work[0]} is not{also}"
            )
        return StackPosition(call=None, site=site, way_out=_way_out(look))
    if call is not None:
        return StackPosition(call=None, site=site, way_out=WayOut.FINALIZE_CALL)
    if main is not None and any(map(_ends_all_groups, main.frames)):
        return StackPosition(call=None, site=site, way_out=WayOut.DESTROY_CALL)
    return StackPosition(call=None, site=site, detail=f"{_doing(seen)}{also}")


def _is_at_exit(look: Look) -> bool:
    """Say whether the script of a rank is over: Python has begun to finalize, or a child of multiprocessing to exit."""
    frames = look.main.frames if look.main is not None else ()
    return PYTHON_EXIT in look.exit_calls or any(
        frame.file.endswith(file) and frame.function == function for frame in frames for file, function in _EXIT_FRAMES
    )


def _way_out(look: Look) -> WayOut:
    """Say how far a rank has come that exits."""
    if MPI_EXIT in look.exit_calls:
        return WayOut.MPI_FINALIZE
    return WayOut.EXITING if look.threads else WayOut.INTERPRETER_GONE


def _is_of_user(thread: Thread) -> bool:
    return any(not frame.is_native and not is_not_own(frame.file) for frame in thread.frames)


def _ends_all_groups(frame: Frame) -> bool:
    return (
        frame.function == "destroy_process_group"
        and frame.file.endswith(_TORCH_FILES)
        and frame.variables.get("group") == "None"
    )


def _call(thread: Thread) -> StackPosition | None:
    """Return the outermost communication that a thread is inside."""
    for number, frame in reversed(list(enumerate(thread.frames))):
        position = _torch_call(frame) or _mpi_call(frame)
        if position is not None:
            outside = thread.frames[number + 1 : number + 3]
            return replace(position, on_world=position.family == "torch" and any(map(_names_no_group, outside)))
    for frame in reversed(thread.frames):
        if not frame.is_native:
            continue
        if _REDUCER.match(frame.function):
            # its end waits for the gradients of all ranks; what comes before may be computing
            waits = any(_REDUCER_END.match(inner.function) for inner in thread.frames)
            role = Family.COLLECTIVE if waits else None
            return StackPosition(
                call="DDP's reduction", family="torch", role=role, needs_all=waits, detail="inside DDP, from C++"
            )
        if _WORK_WAIT.match(frame.function):
            detail = "for a call that was started before; which is not seen"
            return StackPosition(call="wait", family="torch", role=Family.WAIT, detail=detail)
        nccl = _NCCL_SYMBOL.match(frame.function)
        if nccl is not None:
            return StackPosition(call=f"nccl{nccl.group(1)}", family="torch")
        if _GPU_WAIT.match(frame.function):
            return StackPosition(call="GPU", family="gpu", detail="waits for the GPU; what runs there is not seen")
    return None


def _torch_call(frame: Frame) -> StackPosition | None:
    name = frame.function.rpartition(".")[2]
    operation = BY_NAME.get(f"torch.{name}")
    if operation is None or not frame.file.endswith(_TORCH_FILES):
        return None
    return StackPosition(call=name, family="torch", role=operation.family, needs_all=operation.needs is Needs.ALL)


def _names_no_group(frame: Frame) -> bool:
    """Say whether a frame is torch's wrapper around a call that was given no group: it is on all ranks then."""
    arguments = frame.variables.get("args", "..."), frame.variables.get("kwargs", "...")
    return frame.file.endswith("torch/distributed/c10d_logger.py") and not any(
        "..." in text or "group" in text.lower() for text in arguments
    )


def _mpi_call(frame: Frame) -> StackPosition | None:
    if not frame.is_native:
        return None
    symbol = _MPI_SYMBOL.match(frame.function)
    if symbol is not None:
        name = symbol.group(1)
    elif frame.library.startswith("MPI.") and "mpi4py" in frame.code_file:
        name = frame.function.rpartition(".")[2]
    else:
        return None
    operation = BY_NAME.get(name)
    if operation is None and name not in ("Finalize", "Init_thread", "Init"):
        return None
    if operation is None:
        return StackPosition(call=name, family="mpi", role=Family.COLLECTIVE, needs_all=True)
    return StackPosition(call=name, family="mpi", role=operation.family, needs_all=operation.needs is Needs.ALL)


def _path(thread: Thread, cwd: str) -> tuple[str, ...]:
    """Return the lines of the user's own code, innermost first; the innermost of any Python code if there is none."""
    prefix = f"{cwd}{os.sep}" if cwd else ""
    return tuple(f"{frame.file.removeprefix(prefix)}:{frame.line}" for frame in own_frames(thread))


def _doing(seen: SeenRank) -> str:
    """Say what a rank does that is in no known call."""
    look = seen.second
    text = _DOING.get(look.kernel_state)
    if text is None and seen.processor_share > 0.5:
        text = f"computes ({100 * seen.processor_share:.0f} % of a core)"
    if text is None:
        text = next((doing for part, doing in _KERNEL.items() if part in look.kernel_wait), None)
    if text is None:
        text = f"runs ({100 * seen.processor_share:.0f} % of a core)"
    moved = "it moves" if seen.has_moved else f"at the same line for {seen.seconds:.1f} s"
    return f"{text}; {moved}"


def is_worker(thread: Thread | None) -> bool:
    """Say whether a stack is that of a worker that feeds or serves a rank, and is not a rank itself."""
    if thread is None:
        return False
    workers = (
        ("torch/utils/data/_utils/worker.py", "_worker_loop"),
        ("multiprocessing/pool.py", "worker"),
        ("concurrent/futures/process.py", "_process_worker"),
        ("multiprocessing/managers.py", "_run_server"),
    )
    return any(
        frame.file.endswith(file) and frame.function.rpartition(".")[2] == function
        for frame in thread.frames
        for file, function in workers
    )


def rank_in_stack(thread: Thread | None) -> int | None:
    """Return the rank that a stack's variables name: torch's spawn counts its processes, others say `rank`."""
    for frame in reversed(thread.frames if thread is not None else ()):
        spawned = frame.file.endswith("torch/multiprocessing/spawn.py")
        value = frame.variables.get("i") if spawned else None if is_not_own(frame.file) else frame.variables.get("rank")
        if value is not None and value.isascii() and value.isdigit() and len(value) < 8:
            return int(value)
    return None
