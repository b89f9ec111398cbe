"""Tasks of one step of Slurm that have worlds of their own: they are jobs of their own. The step is made up here."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.guard.rank.torch.torch_groups import job_name

_DEADLINE = 100.0
# the first task ends when its head holds the rings of both, the second one after it
_TASK = """
import os, sys, time
from pathlib import Path
from mpi4py import MPI

assert MPI.COMM_WORLD.size == 1
MPI.COMM_WORLD.Barrier()
done, folder = Path("done"), Path(os.environ["PACELINE_RUN_FOLDER"])
while not done.exists():
    if sys.argv[1] == "0" and len({path.stat().st_ino for path in folder.glob("ring.*")}) == 2:
        done.touch()
    time.sleep(0.01)
"""


def _start(folder: Path, number: int) -> subprocess.Popen[str]:
    own = {
        "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "0",
        "SLURM_STEP_NODELIST": socket.gethostname(), "SLURM_JOB_NODELIST": socket.gethostname(),
        "SLURM_LOCALID": str(number), "SLURM_PROCID": str(number), "PACELINE_KEY": "ab" * 32,
    }  # fmt: skip
    command = [sys.executable, "-m", "paceline", "run", "--", sys.executable, "-c", _TASK, str(number)]
    return subprocess.Popen(
        command, env=os.environ | own, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_tasks_that_are_alone_in_their_worlds_are_not_taken_for_one_rank(tmp_path: Path) -> None:
    tasks = [_start(tmp_path, number) for number in range(2)]
    try:
        said = [task.communicate(timeout=_DEADLINE)[1] for task in tasks]
    finally:
        for task in tasks:
            task.kill()
            task.communicate()
    assert [task.returncode for task in tasks] == [0, 0], said
    assert [text.count("paceline:") for text in said] == [1, 0], said


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "[::1]"])
def test_an_address_that_every_host_has_for_itself_does_not_make_ranks_of_two_hosts_one_job(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", address)
    for name in (job_name((), {}), job_name((), {"init_method": f"tcp://{address}:29500"})):
        assert name.split()[1] == socket.gethostname()


@pytest.mark.parametrize("address", ["node.example", "localhost.example", "192.0.2.7"])
def test_an_address_that_leads_to_one_place_from_everywhere_names_the_job(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", address)
    for name in (job_name((), {}), job_name((), {"init_method": f"tcp://{address}:29500"})):
        assert socket.gethostname() not in name
