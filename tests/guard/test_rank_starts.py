"""Ranks that end before they join a job: their launcher's variables name them, and a note says what became of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.rank_starts import LaunchedJob, RankStarts
from paceline.guard.verdict.diagnose import find_certain, find_first_failure
from paceline.guard.verdict.inspection import Inspection
from paceline.process.procfs import start_time

_DEADLINE = 90.0
# rank 1 ends in some way before it joins, and the others wait for it
TRAINING = """
    import os, signal, sys
    if os.environ["RANK"] == "1":
        if sys.argv[1] == "raises":
            import a_package_that_is_not_there
        elif sys.argv[1] == "exits":
            sys.exit(0)
        elif sys.argv[1] == "leaves":
            os._exit(0)
        elif sys.argv[1] == "lingers":
            stays = type("Stays", (), {"__del__": lambda self: signal.pause()})()
            sys.exit(0)
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    import torch.distributed as dist
    dist.init_process_group("gloo")
    """
# a worker of each rank has its variables, and fails; the ranks do not need it
WITH_WORKER = """
    import os, subprocess, sys
    import torch.distributed as dist
    subprocess.run([sys.executable, "-c", "import a_package_that_is_not_there"], stderr=subprocess.DEVNULL)
    dist.init_process_group("gloo")
    dist.barrier()
    dist.destroy_process_group()
    print("fine\\n", end="")
    """


def run(folder: Path, program: str, *arguments: str) -> tuple[subprocess.CompletedProcess[str], Any]:
    (folder / "train.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "paceline", "run", "-n", "2", "--json", "told.json", "train.py", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_DEADLINE, check=False)
    return done, json.loads((folder / "told.json").read_text())["finding"]


@pytest.mark.parametrize(
    ("how", "cause", "detail"),
    [
        ("raises", "exception", "raised at train.py:5 (ModuleNotFoundError: "),
        ("exits", "early-exit", "ended at train.py:7 (sys.exit(0))"),
        ("leaves", "early-exit", "ended at train.py:9 (os._exit(0))"),
        ("lingers", "early-exit", "ended at train.py:12 (sys.exit(0))"),
        ("dies", "killed", "was killed (by "),  # which signal is not known if it was over at once
    ],
)
def test_a_rank_that_never_comes_to_init_process_group(tmp_path: Path, how: str, cause: str, detail: str) -> None:
    done, finding = run(tmp_path, TRAINING, how)
    assert done.returncode == 90, done.stderr
    assert (finding["ranks"], finding["cause"]) == ([1], cause)
    assert f"rank 1 {detail}" in finding["summary"]


def test_a_program_that_a_rank_starts_is_not_the_rank(tmp_path: Path) -> None:
    done, finding = run(tmp_path, WITH_WORKER)
    assert (done.returncode, done.stdout, finding) == (0, "fine\n" * 2, None), done.stderr


@contextmanager
def started(folder: Path, variables: Mapping[str, str], code: str = "") -> Iterator[subprocess.Popen[str]]:
    """Start a Python below a run, as a launcher would, that says when it is there and ends with its input."""
    boot = Path(__file__).parent.parent.parent / "src" / "paceline" / "guard" / "boot"
    environment = {**os.environ, "PACELINE_RUN_FOLDER": str(folder), "PYTHONPATH": str(boot), **variables}
    text = f"{textwrap.dedent(code)}\nprint('there', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", text], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def mpi_rank(rank: int, size: int = 2) -> dict[str, str]:
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(size), "MPI_LOCALNRANKS": str(size)}


# as the loader of mpi4py.MPI says it, while MPI_Init waits
INSIDE_INIT = """
    from paceline.guard.rank.watched_process import SESSION
    SESSION.start.tell({"init": [["/somewhere/train.py", 3, "<module>"]]})
    """


def test_others_in_mpi_init_wait_for_a_rank_that_has_ended(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    rings = LocalRings(tmp_path)
    try:
        with started(tmp_path, mpi_rank(0), INSIDE_INIT), started(tmp_path, mpi_rank(1)) as other:
            rings.jobs()
            assert rings.starting() == []  # all live
            other.communicate("\n")
            rings.jobs()
            (snapshot,) = rings.starting()
            finding = find_certain(Inspection(snapshot))
            assert finding is not None
            assert finding.ranks == (1,)
            assert "rank 0 waits for it in MPI_Init at /somewhere/train.py:3" in finding.summary
    finally:
        rings.close()


def test_mpi_of_one_process_waits_for_nobody(tmp_path: Path) -> None:
    """Under torchrun, mpi4py may be imported as well: there each process is alone in MPI's world."""
    tmp_path.chmod(0o700)
    rings = LocalRings(tmp_path)
    try:
        of_torch = [{"RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2)]
        with started(tmp_path, of_torch[0], INSIDE_INIT), started(tmp_path, of_torch[1]) as other:
            rings.jobs()
            other.communicate("\n")
            rings.jobs()
            assert rings.starting() == []
    finally:
        rings.close()


def test_what_a_rank_starts_leaves_no_note(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    with started(tmp_path, mpi_rank(1), child) as python:
        assert [name for name in os.listdir(tmp_path) if name.startswith("start.")] == [f"start.{python.pid}"]


def test_nobody_is_missed_if_no_rank_initialises_mpi(tmp_path: Path) -> None:
    """A launcher may start programs that do not talk to each other."""
    tmp_path.chmod(0o700)
    rings = LocalRings(tmp_path)
    try:
        with started(tmp_path, mpi_rank(0)), started(tmp_path, mpi_rank(1)) as other:
            rings.jobs()
            other.communicate("\n")
            rings.jobs()
            assert rings.starting() == []
    finally:
        rings.close()


def test_a_rank_lives_while_a_shell_of_it_does(tmp_path: Path) -> None:
    """It may start another Python, as `python prepare.py; python train.py` does."""
    tmp_path.chmod(0o700)
    job = LaunchedJob("MPICH", 2, ("",) * 7)
    starts = RankStarts(tmp_path, 0, lambda process: None)
    shell_variables = {**os.environ, **mpi_rank(1), "PACELINE_RUN_FOLDER": str(tmp_path)}
    with subprocess.Popen(["sleep", "60"], env=shell_variables) as shell:
        try:
            with started(tmp_path, mpi_rank(1)) as python:
                python.communicate("\n")
            starts.read(os.listdir(tmp_path))
            assert starts.ended_early(set()) == {}
            shell.kill()
            shell.wait()
            deadline = 100
            while not (found := starts.ended_early(set())) and deadline:
                deadline -= 1
                os.sched_yield()
                subprocess.run(["sleep", "0.05"], check=True)
            assert [list(ranks) for ranks in found.values()] == [[1]]
            assert next(iter(found)).size == job.size
        finally:
            shell.kill()


def test_of_several_that_were_gone_before_they_were_seen_nobody_was_the_first(tmp_path: Path) -> None:
    """A launcher kills the others at once when a rank dies, perhaps before the guard has looked."""
    tmp_path.chmod(0o700)
    starts = RankStarts(tmp_path, 0, lambda process: None)
    for rank in range(3):
        with started(tmp_path, mpi_rank(rank, 3)) as python:
            python.kill()
        if rank == 0:
            starts.read(os.listdir(tmp_path))
            assert [list(ranks) for ranks in starts.ended_early(set()).values()] == [[0]]
    starts.read(os.listdir(tmp_path))
    assert starts.ended_early(set()) == {}


def test_a_rank_that_was_never_seen_alive_may_have_been_the_first(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    rings = LocalRings(tmp_path)
    try:
        with started(tmp_path, mpi_rank(0)) as seen:
            rings.jobs()
            with started(tmp_path, mpi_rank(1)) as unseen:
                unseen.kill()
                unseen.wait()
            seen.kill()
            seen.wait()
            rings.jobs()
            assert rings.starting(has_ended=True) == []
    finally:
        rings.close()


def test_a_rank_that_was_gone_while_the_others_were_seen_alive_was_the_first(tmp_path: Path) -> None:
    """A rank may die within milliseconds; a launcher with some patience kills the others later."""
    tmp_path.chmod(0o700)
    rings = LocalRings(tmp_path)
    try:
        with started(tmp_path, mpi_rank(0)) as second:
            rings.jobs()
            with started(tmp_path, mpi_rank(1)) as first:
                first.kill()
            rings.jobs()
            rings.wait(0.05)  # ends that are closer together count as one moment
            second.kill()
            second.wait()
            rings.jobs()
            (snapshot,) = rings.starting(has_ended=True)
            finding = find_first_failure(Inspection(snapshot))
            assert finding is not None
            assert finding.ranks == (1,)
    finally:
        rings.close()


def test_ends_that_were_seen_keep_their_order(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    rings = LocalRings(tmp_path)
    try:
        with started(tmp_path, mpi_rank(0)) as second, started(tmp_path, mpi_rank(1)) as first:
            rings.jobs()
            for process in (first, second):
                process.kill()
                process.wait()
            rings.jobs()
            (snapshot,) = rings.starting(has_ended=True)
            ends = [state.end.at_ns for state in snapshot.ranks if state is not None and state.end is not None]
            assert ends[1] < ends[0]
    finally:
        rings.close()


def test_a_note_that_is_not_complete_is_read_later(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    starts = RankStarts(tmp_path, 0, lambda process: None)
    note = tmp_path / f"start.{os.getpid()}"
    line = json.dumps(
        {
            "rank": 0, "size": 2, "launcher": "MPICH", "job": [], "has_mpi": True, "pid": os.getpid(),
            "began": start_time(os.getpid()), "folder": "/",
        }
    )  # fmt: skip
    for content in ("", line[:20], "7\n"):
        note.write_text(content)
        note.chmod(0o600)
        starts.read([note.name])
        assert starts.place_of(os.getpid()) is None
    note.write_text(f"{line}\n")
    starts.read([note.name])
    assert starts.place_of(os.getpid()) == (LaunchedJob("MPICH", 2, ()), 0)
