"""Runs small scripts under `paceline run`, for the tests of how it behaves around a job."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from paceline.launch.mpiexec import find_mpiexec

DEADLINE = 60.0  # seconds
ONE_IS_LATE = """
    import ctypes, time
    from mpi4py import MPI
    if MPI.COMM_WORLD.rank == 1:
        time.sleep(2.5)
    MPI.COMM_WORLD.Barrier()
    print("done\\n", end="", flush=True)
    """


def paceline(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "paceline", *arguments]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


def run(
    folder: Path, *arguments: str, env: dict[str, str] | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        paceline("run", *arguments), cwd=folder, env={**os.environ, **(env or {})}, input=text, capture_output=True,
        text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip


def mpiexec(world_size: int) -> list[str]:
    return find_mpiexec().command(world_size, clean_up=True)
