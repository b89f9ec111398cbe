"""mpi4py's own test suite ends under `paceline run` as it ends without: every test on every rank.

`make test-mpi4py` gets the suite from the package index, in the version that is installed here. One rank runs all of
it. More ranks leave out the tests of data types, which concern one rank alone and take half of the time;
`make test-mpi4py WHOLE=1` runs them there too.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from paceline.launch.mpiexec import find_mpiexec

pytestmark = [pytest.mark.mpi4py, pytest.mark.timeout(1500)]

_ROOT = Path(__file__).parent.parent.parent
_RUNNER = _ROOT / "tests" / "helpers" / "mpi4py_suite_runner.py"
_EXCLUDED = ("spawn", "dynproc", "mpiabi")  # they start processes of their own, or need another build of mpi4py
_OF_ONE_RANK = ("test_datatype", "test_util_dtlib")  # they call no other rank
_FEWEST_PASSED = 1500  # by far fewer than there are: a suite that was not found must not pass
_DEADLINE_SECONDS = 700.0
_WORLD_SIZES = [int(size) for size in os.environ.get("PACELINE_MPI4PY_RANKS", "1 2 3").split()]

Ends = dict[str, list[str]]  # name of a test -> how it ended


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """How the suite ended on all ranks."""

    exit_code: int
    ends: dict[str, Ends]  # by rank
    err: str


def mpi4py_sources() -> Path:
    """Return the folder of the sources of mpi4py, which is there once `make test-mpi4py` has fetched it."""
    return _ROOT / ".mpi4py-tests" / f"mpi4py-{importlib.metadata.version('mpi4py')}"


def _suite() -> Path:
    suite = mpi4py_sources() / "test"
    assert suite.is_dir(), f"{suite} is missing: `make test-mpi4py` gets it"
    return suite


def _run(folder: Path, world_size: int, guard: list[str]) -> SuiteRun:
    results = folder / "results"
    results.mkdir(parents=True)
    left_out = _EXCLUDED if world_size == 1 or os.environ.get("PACELINE_MPI4PY_WHOLE") else _EXCLUDED + _OF_ONE_RANK
    excluded = [part for name in left_out for part in ("-e", name)]
    program = [sys.executable, str(_RUNNER), str(results), str(_suite()), "--quiet", *excluded]
    with tempfile.TemporaryDirectory(prefix="pl", dir="/tmp", ignore_cleanup_errors=True) as session:
        # the tests of pools start processes, which import the tests
        environment = {**os.environ, "TMPDIR": session, "PYTHONPATH": str(_suite())}
        ended = subprocess.run(
            [*guard, *find_mpiexec().command(world_size, clean_up=True), *program], cwd=folder, check=False,
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_DEADLINE_SECONDS,
        )  # fmt: skip
    ends = {path.stem: json.loads(path.read_text()) for path in results.glob("*.json")}
    return SuiteRun(exit_code=ended.returncode, ends=ends, err=ended.stderr)


@pytest.mark.parametrize("world_size", _WORLD_SIZES)
def test_every_test_of_mpi4py_ends_as_it_does_without_the_guard(world_size: int, tmp_path: Path) -> None:
    outcome = tmp_path / "outcome.json"
    # on a machine that is busy with other work ranks may wait long, which is told but is no finding
    guard = [sys.executable, "-m", "paceline", "run", "--json", str(outcome), "--notice", "500", "--"]
    with ThreadPoolExecutor(2 if world_size == 1 else 1) as runs:  # two runs of one rank take two cores
        bare_run = runs.submit(_run, tmp_path / "bare", world_size, [])
        watched_run = runs.submit(_run, tmp_path / "watched", world_size, guard)
    bare, watched = bare_run.result(), watched_run.result()
    assert bare.exit_code == 0, bare.err
    assert set(bare.ends) == {str(rank) for rank in range(world_size)}, bare.err
    assert watched.exit_code == 0, watched.err
    assert json.loads(outcome.read_text())["outcome"] == "ok"
    assert watched.ends == bare.ends
    for ends in bare.ends.values():
        counts = Counter(how.partition(":")[0] for hows in ends.values() for how in hows)
        assert counts["passed"] > _FEWEST_PASSED, counts
    assert not [line for line in watched.err.splitlines() if line.startswith("paceline:")]
