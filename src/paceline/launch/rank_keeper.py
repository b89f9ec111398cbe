"""What a started process runs: `python -m paceline.launch FOLDER CARRIER PARENT [WORLD_SIZE]`.

mpiexec starts one for each rank. For torch there is one for all ranks: it imports torch, which takes longer than most
jobs do, and splits into the ranks.

The process of a rank splits in two. The worker joins its carrier and runs the function. The keeper waits for it,
writes down how it ended, which only a parent can know, and ends it if the launcher is gone. After a failure the keeper
stays until the launcher says so: mpiexec would kill the other ranks before they can say what they saw.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing import current_process, spawn
from pathlib import Path
from typing import Any

from paceline.comm.place import find_place
from paceline.launch.job_folder import JobFolder, read_pickle
from paceline.launch.leftovers import remove_leftovers
from paceline.launch.outcome import RankError
from paceline.process.procfs import wait_until_gone
from paceline.process.stacks import OF_STARTER, StackAnswers
from paceline.process.whole_files import write_whole

FAILED = 1


def main(arguments: list[str]) -> int:
    """Be one rank, or split into all of them."""
    folder, carrier, parent = JobFolder(Path(arguments[0])), arguments[1], int(arguments[2])
    if len(arguments) == 3:
        place = find_place()
        return _split(folder, carrier, parent, place.rank, place.world_size)
    world_size = int(arguments[3])
    _import_torch()
    for rank in range(world_size):
        if os.fork() == 0:
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed()  # as Python does for its own: ranks draw different numbers
            return _split(folder, carrier, parent, rank, world_size)
    for _ in range(world_size):
        os.wait()
    return 0


def _import_torch() -> None:
    try:
        importlib.import_module("torch.distributed")
    except ImportError:
        return  # every rank meets it again, and says so
    gc.freeze()  # what ranks share is not theirs to look through


def _split(folder: JobFolder, carrier: str, parent: int, rank: int, world_size: int) -> int:
    """Split into keeper and worker."""
    try:
        parent_gone = os.pidfd_open(parent)
    except ProcessLookupError:
        return FAILED
    worker = os.fork()
    if worker == 0:
        os.close(parent_gone)
        return _work(folder, carrier, rank, world_size)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    return _keep(folder, rank, worker, parent_gone)


def _keep(folder: JobFolder, rank: int, worker: int, parent_gone: int) -> int:
    worker_gone = os.pidfd_open(worker)
    shared_files = {Path(line) for line in folder.shared_files.read_text().splitlines()}
    write_whole(folder.of_rank(rank, "pid"), f"{worker} {os.getpid()}".encode())
    watch = select.poll()
    watch.register(worker_gone, select.POLLIN)
    watch.register(parent_gone, select.POLLIN)
    if any(descriptor == parent_gone for descriptor, _ in watch.poll()):
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)
        # Nobody else is left to do it. MPI's files are free once all workers are gone; mpiexec ends the rest after us.
        wait_until_gone(pid for pid, _ in folder.pids().values())
        remove_leftovers(shared_files)
        shutil.rmtree(folder.path, ignore_errors=True)
        return FAILED
    _, status = os.waitpid(worker, 0)
    code = os.waitstatus_to_exitcode(status)
    write_whole(folder.of_rank(rank, "status"), str(code).encode())
    watch.unregister(worker_gone)
    while code != 0 and not folder.end.exists() and folder.path.exists():
        if watch.poll(10):  # the launcher is gone
            break
    return FAILED if code else 0


def _work(folder: JobFolder, carrier: str, rank: int, world_size: int) -> int:
    """Run the function. Return 0, or leave this process at once if it has failed."""
    output = os.open(folder.of_rank(rank, "output"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    answers = StackAnswers(folder.of_rank(rank, "stacks").open("w"), OF_STARTER, all_threads=True)
    code = FAILED
    try:
        value, take_leave = _call(folder, carrier, rank, world_size)
        code = _write_result(folder, rank, {"value": value})
        if code == 0:
            gc.collect()  # what holds a group of torch must go before the groups do
            take_leave()
            answers.stop()
            return 0  # and an end as usual: MPICH takes leave of its launcher only then
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        _write_result(folder, rank, {"error": error, "traceback": traceback.format_exc()} if code else {})
    except BaseException as error:
        _write_result(folder, rank, {"error": error, "traceback": traceback.format_exc()})
    sys.stdout.flush()
    sys.stderr.flush()
    # No finalisers: after a failure they would wait for ranks that wait for this one.
    os._exit(code)


def _call(folder: JobFolder, carrier: str, rank: int, world_size: int) -> tuple[Any, Callable[[], None]]:
    """Run the function; return its value, and what takes leave of the other ranks."""
    prepared, pickled = read_pickle(folder.call)
    process: Any = current_process()
    process._inheriting = True  # what multiprocessing looks at, to refuse starting processes meanwhile
    spawn.prepare(prepared)  # the path and the main module of the caller, as multiprocessing does
    del process._inheriting
    function, args = pickle.loads(pickled)
    if carrier == "mpi":
        from mpi4py import MPI

        from paceline.comm.mpi_comm import MpiComm

        return function(MpiComm(), *args), MPI.Finalize
    import torch.distributed as dist

    from paceline.comm.torch_comm import TorchComm

    dist.init_process_group("gloo", init_method=f"file://{folder.rendezvous}", rank=rank, world_size=world_size)
    dist.barrier()  # a rank that ends at once would close connections that others still make
    return function(TorchComm(), *args), dist.destroy_process_group


def _write_result(folder: JobFolder, rank: int, result: dict[str, Any]) -> int:
    try:
        pickled = pickle.dumps(result)
        pickle.loads(pickled)  # some exceptions go in and do not come out
        code = 0
    except Exception as problem:
        if "error" in result:
            error = result["error"]
            text = f"{type(error).__name__}: {error}"
        else:
            text = f"the value cannot travel: {type(problem).__name__}: {problem}"
        lost = {"error": RankError(text), "traceback": result.get("traceback", traceback.format_exc())}
        pickled, code = pickle.dumps(lost), FAILED
    write_whole(folder.of_rank(rank, "result"), pickled)
    return code
