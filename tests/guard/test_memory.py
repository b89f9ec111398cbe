"""A rank that the kernel kills for memory, for real: a memory cgroup of its own, and an allocation beyond it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")

HUNGRY = """
import sys, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    open(sys.argv[1], "w").write("0")
    held = []
    while True:
        held.append(bytearray(b"x") * (8 << 20))
comm.Barrier()
"""


@pytest.fixture
def limited() -> Iterator[Path]:
    """Make a memory cgroup; return the file that takes a process in."""
    version_1 = (_V1 / "memory.limit_in_bytes").exists() or (_V1 / "tasks").exists()
    parent = _V1 if version_1 else _V2
    folder = parent / f"paceline-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / ("memory.limit_in_bytes" if version_1 else "memory.max")).write_text(str(256 << 20))
    except OSError as error:
        pytest.skip(f"needs root and a memory cgroup, to have a rank killed for memory: {error}")
    yield folder / ("tasks" if version_1 else "cgroup.procs")
    folder.rmdir()


def test_a_rank_killed_for_memory_is_named_with_the_kernels_evidence(tmp_path: Path, limited: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(HUNGRY)
    command = [sys.executable, "-m", "paceline", "run", "--json", "o.json", "-n", "3", "--carrier", "mpi"]
    done = subprocess.run(
        [*command, str(script), str(limited)], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 90, done.stderr
    finding = json.loads((tmp_path / "o.json").read_text())["finding"]
    assert (finding["kind"], finding["ranks"], finding["cause"]) == ("peer-gone", [1], "out-of-memory")
    assert "SIGKILL" in finding["summary"]
    assert "for memory" in finding["summary"]
