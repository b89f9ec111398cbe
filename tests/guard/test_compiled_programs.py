"""Real programs whose MPI calls are made by a compiled library: hangs are found, slow ranks are not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.launch.mpiexec import find_mpiexec

pytestmark = pytest.mark.programs

_DEADLINE_SECONDS = 100.0
LIBRARY = """
    #include <mpi.h>
    #include <unistd.h>

    void halo_barrier(MPI_Comm comm) { MPI_Barrier(comm); }

    double halo_sum(MPI_Comm comm, double value) {
        double sum = 0;
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
        return sum;
    }

    void halo_loop(MPI_Comm comm, int seconds) {
        double end = MPI_Wtime() + seconds;
        for (int more = 1; more;) {
            for (int i = 0; i < 100; ++i) MPI_Barrier(comm);
            int mine = MPI_Wtime() < end;
            MPI_Allreduce(&mine, &more, 1, MPI_INT, MPI_MIN, comm);
        }
    }

    static void add_slowly(void *in, void *inout, int *count, MPI_Datatype *type) {
        for (int tenths = 0; tenths < 120; ++tenths) usleep(100000);
        for (int i = 0; i < *count; ++i) ((double *)inout)[i] += ((double *)in)[i];
    }

    double halo_slow_sum(MPI_Comm comm, double value) {
        double sum = 0;
        MPI_Op op;
        MPI_Op_create(add_slowly, 1, &op);
        MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, op, comm);
        MPI_Op_free(&op);
        return sum;
    }
"""
BEGIN = """
    import ctypes, sys, time
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    own = world.Dup()  # libraries communicate on a communicator of their own
    halo = ctypes.CDLL("./libhalo.so")
    Handle = ctypes.c_int if MPI._sizeof(MPI.Comm) == 4 else ctypes.c_void_p
    def on(comm):
        return Handle.from_address(MPI._addressof(comm))
    halo.halo_sum.restype = halo.halo_slow_sum.restype = ctypes.c_double
    def total(comm, value):
        return halo.halo_sum(on(comm), ctypes.c_double(value))
    assert total(own, 1.0) == world.size
"""

Run = Callable[..., tuple[int, str, dict[str, Any] | None]]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library against the MPI of this environment."""
    wrapper = Path(sys.executable).parent / "mpicc"
    if not wrapper.exists() or shutil.which("cc") is None:
        pytest.skip(f"NOT TESTED: a C compiler and {wrapper} are needed to compile a library that uses MPI")
    if not (wrapper.with_name("py-spy").exists() or shutil.which("py-spy")):
        pytest.skip("NOT TESTED: native stacks cannot be taken, because py-spy is not installed")
    folder = tmp_path_factory.mktemp("halo")
    (folder / "halo.c").write_text(textwrap.dedent(LIBRARY))
    subprocess.run([str(wrapper), "-shared", "-fPIC", "-o", "libhalo.so", "halo.c"], cwd=folder, check=True)
    return folder / "libhalo.so"


@pytest.fixture
def run(library: Path, tmp_path: Path) -> Run:
    def run(program: str, *options: str, world_size: int = 3) -> tuple[int, str, dict[str, Any] | None]:
        shutil.copy(library, tmp_path)
        (tmp_path / "solver.py").write_text(textwrap.dedent(BEGIN) + textwrap.dedent(program))
        before = shared_files_now()
        done = subprocess.run(
            [
                sys.executable, "-m", "paceline", "run", "--json", "told.json", *options, "--",
                *find_mpiexec().command(world_size, clean_up=True), sys.executable, "solver.py",
            ],
            cwd=tmp_path, capture_output=True, text=True, timeout=_DEADLINE_SECONDS, check=False,
        )  # fmt: skip
        remove_leftovers(before)
        return done.returncode, done.stderr, json.loads((tmp_path / "told.json").read_text())["finding"]

    return run


def line_of(program: str, marked: str) -> str:
    """Return the line of the solver that has a mark."""
    lines = (textwrap.dedent(BEGIN) + textwrap.dedent(program)).splitlines()
    (number,) = [number for number, line in enumerate(lines, start=1) if f"# {marked}" in line]
    return f"solver.py:{number}"


def test_a_rank_is_in_a_watched_barrier_and_the_others_in_that_of_the_library(run: Run) -> None:
    program = """
        if world.rank != 1:
            halo.halo_barrier(on(own))  # library
        world.Barrier()  # watched
    """
    code, said, finding = run(program)
    assert code == 90, said
    assert finding is not None
    assert (finding["kind"], finding["cause"], finding["ranks"]) == ("deadlock", "unseen-call", [1])
    groups = {tuple(group["ranks"]): (group["state"], group["call"], group["site"]) for group in finding["groups"]}
    assert groups == {
        (0, 2): ("blocked", "MPI_Barrier", line_of(program, "library")),
        (1,): ("blocked", "Barrier", line_of(program, "watched")),
    }
    assert f"stand in MPI_Barrier, called by libhalo.so from {line_of(program, 'library')}" in said


def test_a_rank_has_left_while_the_others_are_in_the_library(run: Run) -> None:
    program = """
        if world.rank == 1:
            sys.exit(0)  # exit
        total(own, 2.0)
    """
    code, said, finding = run(program)
    assert code == 90, said
    assert finding is not None
    assert (finding["kind"], finding["cause"], finding["ranks"]) == ("peer-gone", "early-exit", [1])
    first = finding["groups"][0]
    assert (first["ranks"], first["call"]) == ([0, 2], "MPI_Allreduce")
    assert "rank 1 ended" in said


def test_a_rank_skips_the_library_on_a_communicator_that_is_watched_too(run: Run) -> None:
    """Its watched barrier meets those of the library, so by the records nothing is missing."""
    program = """
        if world.rank != 1:
            halo.halo_barrier(on(world))
        world.Barrier()  # watched
    """
    code, said, finding = run(program)
    assert code == 90, said
    assert finding is not None
    assert (finding["kind"], finding["ranks"]) == ("peer-gone", [1])
    assert "ranks differ in calls that are not recorded" in said
    assert line_of(program, "watched") in said


def test_a_rank_that_is_late_for_the_library_is_shown_and_waited_for(run: Run) -> None:
    program = """
        if world.rank == 1:
            time.sleep(7)
            end = time.monotonic() + 7
            while time.monotonic() < end:
                pass
        halo.halo_barrier(on(own))  # library
        world.Barrier()
        if world.rank == 0:
            halo.halo_barrier(on(MPI.COMM_SELF))
    """
    code, said, finding = run(program, "--notice", "7")
    assert (code, finding) == (0, None), said
    where = f"MPI_Barrier, called by libhalo.so from {line_of(program, 'library')}"
    assert f"rank 0 stands in {where}; Paceline cannot see what it waits for" in said
    assert "s; ranks 0, 2 are in calls of compiled libraries" in said


def test_a_library_that_makes_the_same_call_in_a_loop_is_not_taken_to_stand(run: Run) -> None:
    """Ranks 0 and 2 are in MPI_Barrier at every look, and rank 1 waits for them, but they get on."""
    program = """
        part = world.Split(int(world.rank == 1), world.rank)
        if world.rank != 1:
            halo.halo_loop(on(part), 20)
        world.Barrier()
    """
    code, said, finding = run(program, "--notice", "100")
    assert (code, finding, said) == (0, None, "")


def test_a_library_that_computes_inside_a_collective_is_waited_for(run: Run) -> None:
    """All ranks stand in MPI_Allreduce, and one of them calls back into the library, for longer than we look."""
    program = """
        assert halo.halo_slow_sum(on(own), ctypes.c_double(1.0)) == 2.0
        world.Barrier()
    """
    code, said, finding = run(program, "--notice", "100", world_size=2)
    assert (code, finding, said) == (0, None, "")
