"""Real programs whose processes are in several worlds: mpi4py's and torch's, of equal and of different sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from paceline.launch.mpiexec import find_mpiexec
from paceline.launch.ports import free_port

pytest.importorskip("torch")
pytest.importorskip("mpi4py")
pytestmark = pytest.mark.programs

_DEADLINE = 90.0
_TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]

MPI_THEN_TORCH = """
    from mpi4py import MPI  # imported and not used, as by Lightning
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    x = torch.ones(4)
    for step in range(20):
        dist.all_reduce(x)
    if dist.get_rank() == 1 and BROKEN:
        dist.barrier()
    dist.all_reduce(x)
    dist.barrier()
    print("done\\n", end="", flush=True)
    dist.destroy_process_group()
    """
# Ranks of torch are in reverse order. With HALVES there are two torch jobs in one MPI job.
BOTH = """
    import os, time
    from mpi4py import MPI
    import torch, torch.distributed as dist
    world = MPI.COMM_WORLD
    half = world.Split(world.rank // 2) if HALVES else world
    port = world.bcast(PORT)
    number = half.size - 1 - half.rank
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port + (world.rank // 2 if HALVES else 0)))
    dist.init_process_group("gloo", rank=number, world_size=half.size)
    for step in range(20):
        dist.all_reduce(torch.ones(2))
        world.Barrier()
    if BROKEN == "crossed":  # rank 0 waits in MPI, the others in torch
        if world.rank == 0:
            world.Barrier()
        dist.barrier()
    if BROKEN == "torch" and world.rank == 0:
        dist.all_reduce(torch.ones(3))
    elif BROKEN == "torch":
        dist.all_reduce(torch.ones(2))
    dist.barrier()
    world.Barrier()
    dist.destroy_process_group()
    world.Barrier()
    print("done\\n", end="", flush=True)
    """


def run(folder: Path, program: str, *command: str, **values: Any) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Run a program with these values as its variables; return how it ended and the finding."""
    names = "".join(f"{name} = {value!r}\n" for name, value in values.items())
    (folder / "train.py").write_text(names + textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "run", "--timeout", "30", "--json", "outcome.json", *command],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=_DEADLINE,
        check=False,
    )  # fmt: skip
    return done, json.loads((folder / "outcome.json").read_text())["finding"]


def launched(launcher: str, num_ranks: int) -> list[str]:
    commands = {
        "torchrun": ["--", *_TORCHRUN, str(num_ranks), "train.py"],
        "local": ["-n", str(num_ranks), "train.py"],
        "mpiexec": ["--", *find_mpiexec().command(num_ranks, clean_up=True), sys.executable, "train.py"],
    }
    return commands[launcher]


@pytest.mark.parametrize("launcher", ["torchrun", "local"])
@pytest.mark.parametrize("num_ranks", [2, 3])
def test_mpi4py_imported_in_a_torch_job_hides_nothing(tmp_path: Path, launcher: str, num_ranks: int) -> None:
    done, finding = run(tmp_path, MPI_THEN_TORCH, *launched(launcher, num_ranks), BROKEN=True)
    assert done.returncode == 90, done.stderr
    assert "the guard itself failed" not in done.stderr
    assert finding["kind"] == "mismatch"
    assert finding["ranks"] == [1] or num_ranks == 2
    assert "train.py:10" in done.stderr


def test_mpi4py_imported_in_a_torch_job_that_is_right_changes_nothing(tmp_path: Path) -> None:
    done, _ = run(tmp_path, MPI_THEN_TORCH, *launched("local", 3), BROKEN=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n" * 3, "")


@pytest.mark.parametrize(("num_ranks", "halves"), [(3, False), (4, True)])
def test_both_libraries_in_a_job_that_is_right(tmp_path: Path, num_ranks: int, halves: bool) -> None:
    done, _ = run(tmp_path, BOTH, *launched("mpiexec", num_ranks), HALVES=halves, BROKEN="", PORT=free_port())
    assert (done.returncode, done.stdout) == (0, "done\n" * num_ranks), done.stderr
    assert "paceline" not in done.stderr


def test_ranks_that_wait_for_each_other_in_two_libraries_are_found(tmp_path: Path) -> None:
    done, finding = run(tmp_path, BOTH, *launched("mpiexec", 3), HALVES=False, BROKEN="crossed", PORT=free_port())
    assert done.returncode == 90, done.stderr
    assert finding["cause"] != "timeout"
    waiting = {tuple(group["ranks"]): group["call"] for group in finding["groups"]}
    assert waiting == {(0,): "Barrier", (1, 2): "barrier"}


@pytest.mark.parametrize(("num_ranks", "halves"), [(3, False), (4, True)])
def test_a_rank_is_named_by_its_number_in_the_job(tmp_path: Path, num_ranks: int, halves: bool) -> None:
    done, finding = run(
        tmp_path, BOTH, *launched("mpiexec", num_ranks), HALVES=halves, BROKEN="torch", PORT=free_port()
    )
    assert done.returncode == 90, done.stderr
    assert finding["kind"] == "mismatch"
    assert finding["field"] == "count"
    assert finding["ranks"] == ([0] if num_ranks == 3 else [0, 1])
    assert {rank for group in finding["groups"] if group["count"] == 3 for rank in group["ranks"]} == {0}


def test_a_lightning_trainer_is_watched_to_its_end() -> None:
    pytest.importorskip("lightning")
    folder = Path(__file__).parents[2] / "examples" / "ecosystem"
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "run", "-n", "2", "lightning_trainer.py"], cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=2 * _DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "paceline" not in done.stderr
