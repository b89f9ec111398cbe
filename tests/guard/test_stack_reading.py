"""Native stacks are read: the function of MPI or gloo, who called it, from which line, and whether it surely waits."""

from __future__ import annotations

import json

import pytest

from paceline.guard.observe.stack_reading import find_compiled_call
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.compiled_call import CompiledCall
from paceline.process.native_stacks import Frame, Thread, read_answer

LIBC, MPI, HALO = "/lib/libc.so.6", "/env/lib/libmpi.so.12", "/home/me/libhalo.so"
MPI4PY = "/env/lib/python3.11/site-packages/mpi4py/MPI.mpich.cpython-311-x86_64-linux-gnu.so"
OUTSIDE = [("ffi_call", "/usr/lib/libffi.so.8", 0), ("step", "/home/me/solver.py", 31), ("main", "/home/me/run.py", 9)]


def thread(*frames: tuple[str, str, int]) -> Thread:
    stack = [Frame(function=function, file=file, line=line) for function, file, line in frames]
    return Thread(name="MainThread", is_main=True, frames=tuple(stack))


def native(function: str, file: str) -> tuple[str, str, int]:
    return (function, file, 0)


def test_a_barrier_inside_a_library() -> None:
    polls = [native("sched_yield", LIBC), native("0x7f82", MPI), native("PMPI_Barrier", MPI)]
    call = find_compiled_call(thread(*polls, native("halo_exchange", HALO), *OUTSIDE), lambda path: path[9:])
    assert call == CompiledCall(
        function="MPI_Barrier", library="libhalo.so", site="solver.py:31", family=Family.COLLECTIVE, waits=True
    )
    assert call.text == "MPI_Barrier, called by libhalo.so from solver.py:31"


def test_a_native_frame_with_its_source_is_not_taken_for_a_line_of_the_user() -> None:
    source = Frame(function="ffi", file="/build/Modules/_ctypes/callproc.c", line=943, module="/l/_ctypes.so")
    barrier = Frame(function="MPI_Barrier", file="/build/mpich/barrier.c", line=12, module=MPI)
    inside = Frame(function="progress", file="/build/mpich/progress.c", line=7, module=MPI)
    python = Frame(function="step", file="/home/me/solver.py", line=31)
    found = Thread(name="MainThread", is_main=True, frames=(inside, barrier, source, python))
    call = find_compiled_call(found)
    assert call is not None
    assert (call.library, call.site, call.waits) == ("_ctypes.so", "/home/me/solver.py:31", True)


def test_the_answer_of_py_spy_says_what_is_machine_code() -> None:
    frames = [
        {"name": "call", "filename": "callproc.c", "line": 943, "module": "/l/_ctypes.so"},
        {"name": "step", "filename": "solver.py", "line": 31, "module": None},
    ]
    answer = json.dumps([{"frames": frames, "os_thread_id": 7, "thread_name": None, "thread_id": 1}])
    (found,) = read_answer(0, answer, "", pid=7, uid=0)
    assert (found.is_main, found.native_id) == (True, 7)
    assert [frame.is_native for frame in found.frames] == [True, False]
    assert found.frames[0].library == "_ctypes.so"


def test_a_call_of_mpi4py_itself() -> None:
    call = find_compiled_call(thread(native("MPI_Recv", MPI), native("Recv", MPI4PY), *OUTSIDE[1:]))
    assert call is not None
    assert (call.library, call.family, call.waits) == ("mpi4py", Family.RECEIVE, True)


@pytest.mark.parametrize("function", ["MPI_Comm_split", "MPI_Comm_dup", "PMPI_Waitall", "MPI_Bcast_c", "MPI_Ssend"])
def test_functions_that_wait_for_others(function: str) -> None:
    call = find_compiled_call(thread(native("poll", LIBC), native(function, MPI), native("f", HALO), *OUTSIDE))
    assert call is not None
    assert call.waits


@pytest.mark.parametrize(
    "function", ["MPI_Test", "MPI_Iprobe", "MPI_File_write_all", "MPI_Comm_spawn", "MPI_Isend", "MPI_Finalize",
                 "MPI_Win_fence", "MPI_Allreduce_init", "MPI_Comm_accept", "MPI_Comm_disconnect"],
)  # fmt: skip
def test_functions_that_may_end_without_another_rank(function: str) -> None:
    call = find_compiled_call(thread(native("poll", LIBC), native(function, MPI), native("f", HALO), *OUTSIDE))
    assert call is not None
    assert (call.function, call.waits) == (function, False)


def test_a_collective_of_mpi_io_waits_while_it_is_inside_another() -> None:
    inner = [native("0x7f", MPI), native("PMPI_Bcast", MPI)]
    call = find_compiled_call(
        thread(*inner, native("MPI_File_open", MPI), native("H5FDopen", "/l/libhdf5.so"), *OUTSIDE)
    )
    assert call is not None
    assert (call.function, call.library, call.waits) == ("MPI_File_open", "libhdf5.so", True)


@pytest.mark.parametrize(
    "computes", [("add", HALO, 0), ("reduce", "/home/me/solver.py", 12), ("dgemm", "/l/libopenblas.so.0", 0)]
)
def test_what_computes_inside_a_collective_is_not_taken_to_wait(computes: tuple[str, str, int]) -> None:
    call = find_compiled_call(thread(computes, native("MPI_Allreduce", MPI), native("f", HALO), *OUTSIDE))
    assert call is not None
    assert not call.waits


def test_gloo_is_told_but_ends_by_its_own_limit() -> None:
    torch = "/env/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so"
    frames = [native("pthread_cond_wait", LIBC), native("gloo::barrier(gloo::BarrierOptions&)", torch)]
    call = find_compiled_call(thread(*frames, native("sync", "/home/me/ext.so"), *OUTSIDE))
    assert call is not None
    assert (call.function, call.library, call.waits, call.is_of_gloo) == ("gloo::barrier", "ext.so", False, True)
    waits = native("c10d::ProcessGroupGloo::AsyncWork::wait(std::chrono::milliseconds)", torch)
    assert find_compiled_call(thread(waits, *OUTSIDE)) is not None
    of_gpu = native("c10d::ProcessGroupNCCL::WorkNCCL::wait(std::chrono::milliseconds)", torch)
    assert find_compiled_call(thread(of_gpu, *OUTSIDE)) is None


def test_a_rank_that_computes_is_in_no_call() -> None:
    assert find_compiled_call(thread(native("dgemm", "/l/libopenblas.so.0"), *OUTSIDE)) is None
    assert find_compiled_call(thread(("MPI_Barrier", "/home/me/solver.py", 3))) is None, "a function of Python"
