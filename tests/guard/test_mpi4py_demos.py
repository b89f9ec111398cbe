"""mpi4py's own demos end under `paceline run` as they end without, and nothing is said of them.

`make test-mpi4py` gets them with the test suite. Left out is what needs a compiler, a GPU, a network or a screen, and
what does not end by itself with this number of ranks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.guard.broken_programs import one_in_every
from tests.guard.test_mpi4py_suite import mpi4py_sources

from paceline.launch.mpiexec import find_mpiexec

pytestmark = [pytest.mark.mpi4py, pytest.mark.timeout(300)]

_DEADLINE_SECONDS = 120.0
_FOLDERS = (
    ".", "compute-pi", "futures", "init-fini", "mandelbrot", "mpi-ref-v1", "nxtval", "profiling", "reductions",
    "sequential", "threads",
)  # fmt: skip
_LEFT_OUT = {
    "cpi-dpm.py",  # asks for options
    "mandelbrot-master.py",  # waits for workers that it spawns from a program in Fortran
    "perf_crawl.py", "run_crawl.py", "test_service.py",  # need a network, or another program
    "perf_primes.py", "run_julia.py", "run_mandelbrot.py",  # need minutes, or a screen
    "test_futures.py",  # runs with the suite
}  # fmt: skip
_OF_TWO_RANKS = {"ex-2.01.py", "ex-2.08.py", "osu_bibw.py", "osu_bw.py", "osu_latency.py", "sendrecv.py"}
_OF_FOUR_RANKS = {"osu_multi_lat.py"}  # pairs
# they receive many messages into one array at a time, which the standard forbids
_OVERLAPPING = {"osu_bibw.py", "osu_bw.py"}


# ranks get the same number from its shared counter there
_FAILING_WITH_OPEN_MPI = {"nxtval-mpi3.py"}
_INPUT = b"1000\n0\n"  # some ask for a number of intervals; Open MPI does not tell its ranks where an input ends


def _demos() -> list[Path]:
    folder = mpi4py_sources() / "demo"
    return [path for name in _FOLDERS for path in sorted((folder / name).glob("*.py")) if path.name not in _LEFT_OUT]


def _folder_of(demo: Path) -> str:
    return demo.parent.name


_DEMOS_TO_RUN = one_in_every(_demos(), key=_folder_of)


def _num_ranks(demo: Path) -> int:
    return 2 if demo.name in _OF_TWO_RANKS else 4 if demo.name in _OF_FOUR_RANKS else 3


def _code(demo: Path, guard: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="pl", dir="/tmp", ignore_cleanup_errors=True) as session:
        ended = subprocess.run(
            [*guard, *find_mpiexec().command(_num_ranks(demo), clean_up=True), sys.executable, demo.name],
            cwd=demo.parent, env={**os.environ, "TMPDIR": session}, input=_INPUT, capture_output=True,
            timeout=_DEADLINE_SECONDS, check=False,
        )  # fmt: skip
    return ended.returncode


def test_the_demos_are_there() -> None:
    assert len(_demos()) > 40, "`make test-mpi4py` gets them"


@pytest.mark.parametrize("demo", _DEMOS_TO_RUN, ids=lambda demo: f"{_folder_of(demo)}/{demo.name}")
def test_a_demo_ends_as_it_does_without_the_guard(demo: Path, tmp_path: Path) -> None:
    outcome = tmp_path / "outcome.json"
    guard = [sys.executable, "-m", "paceline", "run", "--json", str(outcome), "--notice", "500", "--"]
    bare = _code(demo, [])
    assert _code(demo, guard) == bare
    if find_mpiexec().vendor == "Open MPI" and demo.name in _FAILING_WITH_OPEN_MPI:
        assert bare == 1
        return
    told = json.loads(outcome.read_text())
    assert (bare, told["outcome"], told["finding"]) == (0, "ok", None)
    causes = {warning["cause"] for warning in told["warnings"]}
    assert causes == ({"buffer-in-use"} if demo.name in _OVERLAPPING else set()), told["warnings"]
