"""A correct job that somebody ends as a whole has no rank out of line, however its ranks are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paceline.process.procfs import children_of, read_stat

pytestmark = pytest.mark.programs

_DEADLINE = 120.0
_MPI = """
import pathlib, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
for step in range(10**9):
    time.sleep(0.003 * comm.rank)
    comm.Barrier()
    if step == 20:
        pathlib.Path(f"began.{comm.rank}").touch()
"""
_FIRST_SAVES = """
import signal, sys, time
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 0:
    signal.signal(signal.SIGTERM, lambda number, frame: (time.sleep(0.2), sys.exit(0)))
"""
_TORCH = """
import pathlib, torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(10**9):
    dist.all_reduce(torch.ones(1000))
    if step == 20:
        pathlib.Path(f"began.{dist.get_rank()}").touch()
"""
_COMPUTES = """
import pathlib, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
pathlib.Path(f"began.{dist.get_rank()}").touch()
time.sleep(100)
"""
_SLOW_TORCHRUN = """
import time
from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler
from torch.distributed.run import main
close = SubprocessHandler.close
SubprocessHandler.close = lambda *args, **options: (close(*args, **options), time.sleep(0.05))
main()
"""
_MPIEXEC = [str(Path(sys.executable).with_name("mpiexec")), "-n", "4", sys.executable]
_TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3"]
_TOLD_ONE_AFTER_THE_OTHER = [sys.executable, "launch.py", "--nproc-per-node", "3"]
_NOBODY = "no rank fell out of line"


def _start(tmp_path: Path, launcher: list[str], script: str, **variables: str) -> subprocess.Popen[str]:
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "launch.py").write_text(_SLOW_TORCHRUN)
    command = [sys.executable, "-m", "paceline", "run", "--", *launcher, "train.py"]
    return subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | variables
    )


def _wait_until_it_steps(tmp_path: Path, num_ranks: int) -> None:
    deadline = time.monotonic() + _DEADLINE
    while len(list(tmp_path.glob("began.*"))) < num_ranks:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("attempt", range(4))
def test_the_time_limit_of_a_launcher_is_no_fault_of_a_rank(attempt: int, tmp_path: Path) -> None:
    """MPICH kills all ranks by SIGKILL then, and ends with 255, or, if it is quick, with 0."""
    run = _start(tmp_path, _MPIEXEC, _MPI, MPIEXEC_TIMEOUT="6")
    _, told = run.communicate(timeout=_DEADLINE)
    assert run.returncode in (0, 255), told
    assert run.returncode == 0 or _NOBODY in told


@pytest.mark.parametrize(
    ("launcher", "script", "num_ranks"),
    [
        (_MPIEXEC, _MPI, 4),
        (_MPIEXEC, _FIRST_SAVES + _MPI, 4),
        (_TORCHRUN, _TORCH, 3),
        (_TOLD_ONE_AFTER_THE_OTHER, _COMPUTES, 3),
    ],
    ids=["mpiexec", "mpiexec, and one rank saves its work", "torchrun", "torchrun, which is slow"],
)
def test_a_launcher_that_is_told_to_end_ends_its_ranks_and_none_is_named(
    launcher: list[str], script: str, num_ranks: int, tmp_path: Path
) -> None:
    run = _start(tmp_path, launcher, script)
    _wait_until_it_steps(tmp_path, num_ranks)
    (started,) = [pid for pid in children_of([run.pid]) if read_stat(pid).parent == run.pid]
    os.kill(started, signal.SIGTERM)
    _, told = run.communicate(timeout=_DEADLINE)
    assert run.returncode not in (0, 90), told
    assert "was killed" not in told
