"""A rank waits for the others where it initialises MPI, and nowhere else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from paceline.guard.rank.hooks import initialises_mpi
from paceline.launch.mpiexec import find_mpiexec

_LEAVES_MPI_ALONE = """
import os, time
import mpi4py
mpi4py.rc.initialize = False
if int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"]) == 0:
    from importlib.machinery import ExtensionFileLoader
    load = ExtensionFileLoader.exec_module
    def load_slowly(loader, module):
        time.sleep(1.5)  # until the others have ended
        return load(loader, module)
    ExtensionFileLoader.exec_module = load_slowly
from mpi4py import MPI
"""


@pytest.mark.parametrize(
    ("rc", "variable", "expected"),
    [
        (True, None, True), ("yes", None, True), (False, None, False), ("no", None, False), (True, "0", False),
        (True, "False", False), (True, "", False), ("off", None, True),
        (True, "off", False), (False, "1", True), (False, "", False), (None, None, True),
    ],
)  # fmt: skip
def test_a_script_may_leave_mpi_to_itself(
    monkeypatch: pytest.MonkeyPatch, rc: object, variable: str | None, *, expected: bool
) -> None:
    package = ModuleType("mpi4py")
    if rc is not None:
        package.rc = SimpleNamespace(initialize=rc)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mpi4py", package)
    monkeypatch.delenv("MPI4PY_RC_INITIALIZE", raising=False)
    if variable is not None:
        monkeypatch.setenv("MPI4PY_RC_INITIALIZE", variable)
    assert initialises_mpi("mpi4py.MPI") == expected
    assert not initialises_mpi("torch.distributed.distributed_c10d")


def test_ranks_that_leave_mpi_alone_wait_for_nobody(tmp_path: Path) -> None:
    program, outcome = tmp_path / "program.py", tmp_path / "outcome.json"
    program.write_text(_LEAVES_MPI_ALONE)
    guard = [sys.executable, "-m", "paceline", "run", "--json", str(outcome), "--"]
    ended = subprocess.run(
        [*guard, *find_mpiexec().command(3, clean_up=True), sys.executable, str(program)],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert json.loads(outcome.read_text())["finding"] is None
