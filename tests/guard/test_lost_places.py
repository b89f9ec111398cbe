"""Places that are full, read-only or gone: the finding and the exit code survive, and one line says what was lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.run import kept_records
from paceline.guard.run.run_registry import RunOutcome, announce_run, announce_warning, write_outcome
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.launch.mpiexec import find_mpiexec

_DEADLINE = 60.0

TORCH = """
    import sys
    import torch.distributed as dist
    dist.init_process_group("gloo")
    if len(sys.argv) > 1 and dist.get_rank() == 1:
        sys.exit(0)
    dist.barrier()
    print("done\\n", end="", flush=True)
    """
# The folder of the run is removed while ranks go on, make communicators and send messages.
REMOVES = """
    import os, shutil, sys, time
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    world.Barrier()
    time.sleep(0.2)
    if world.rank == 0:
        shutil.rmtree(os.environ["PACELINE_RUN_FOLDER"])
    world.Barrier()
    time.sleep(0.2)
    part = world.Dup()
    if part.rank == 0:
        part.send("text", dest=1)
    elif part.rank == 1:
        part.recv(source=0)
    part.Free()
    if len(sys.argv) > 1:
        if world.rank == 1:
            sys.exit(0)
        world.Barrier()
    print("done\\n", end="", flush=True)
    """


def run(folder: Path, *command: str, limit: str = "") -> subprocess.CompletedProcess[str]:
    words = " ".join([sys.executable, "-m", "paceline", "run", *command])
    return subprocess.run(
        ["bash", "-c", f"{limit} {words}"], cwd=folder, capture_output=True, text=True, timeout=_DEADLINE, check=False
    )


def write(folder: Path, program: str) -> str:
    (folder / "train.py").write_text(textwrap.dedent(program))
    return "train.py"


def assert_found(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 90, done.stderr
    assert done.stderr.count("paceline: rank 1 ended at train.py:") == 1
    assert "Traceback" not in done.stderr


def test_a_finding_is_told_and_keeps_its_code_where_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "paceline-out").write_text("a file")  # as on a disk that is full, or may not be written
    done = run(tmp_path, "-n", "2", write(tmp_path, TORCH), "leave")
    assert_found(done)
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("paceline: the records cannot be written: ")
    assert lines[0].startswith("paceline: rank 1 ended")  # the finding comes first


@pytest.mark.parametrize("option", ["--json", "--trace"])
def test_a_file_that_was_asked_for_and_cannot_be_written_costs_only_itself(tmp_path: Path, option: str) -> None:
    done = run(tmp_path, option, "/dev/full", "-n", "2", write(tmp_path, TORCH), "leave")
    assert_found(done)
    assert "paceline: /dev/full cannot be written: " in done.stderr
    (kept,) = (tmp_path / "paceline-out").iterdir()
    assert json.loads((kept / "diagnosis.json").read_text())["exit_code"] == 90


def test_a_correct_job_that_cannot_be_watched_for_lack_of_room_ends_as_without_the_guard(tmp_path: Path) -> None:
    done = run(tmp_path, "-n", "2", write(tmp_path, TORCH), limit="ulimit -f 100;")
    assert (done.returncode, done.stdout) == (0, "done\n" * 2), done.stderr
    assert "not everything was watched: rank 0 cannot be watched: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("leaves", [False, True])
def test_a_run_whose_folder_was_removed_is_still_judged(tmp_path: Path, leaves: bool) -> None:
    launch = find_mpiexec().command(2, clean_up=True)
    words = [sys.executable, write(tmp_path, REMOVES), *(["leave"] if leaves else [])]
    done = run(tmp_path, "--", *launch, *words)
    assert "somebody removed the folder of the run" in done.stderr
    assert "Traceback" not in done.stderr
    if leaves:
        assert_found(done)
        (kept,) = (tmp_path / "paceline-out").iterdir()
        assert len(list(kept.glob("ring.*"))) == 2
    else:
        assert (done.returncode, done.stdout) == (0, "done\n" * 2), done.stderr


def test_records_are_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, value: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_records, "_write_json", fail)
    with pytest.raises(OSError, match="No space left"):
        kept_records.keep_records(tmp_path / "kept", tmp_path, [], None, ["train"])
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("how", ["gone", "full", "link"])
def test_what_tells_watchers_never_raises(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "run"
    if how != "gone":
        folder.mkdir()
        for name in (".about.json", "outcome.json", "warnings.jsonl"):
            (folder / name).symlink_to("/dev/full" if how == "full" else tmp_path / "precious")
    (tmp_path / "precious").write_text("mine")
    warning = JobWarning(cause=WarningCause.HANDLE_LEAK, ranks=(0,), summary="s", advice="a")
    announce_run(folder, ["train"], None)
    announce_warning(folder, warning)
    write_outcome(folder, RunOutcome(exit_code=0, finding=None, records=None))
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("umask", ["0000", "0077"])
def test_records_are_for_their_user_alone_whatever_the_umask(tmp_path: Path, umask: str) -> None:
    done = run(tmp_path, "-n", "2", write(tmp_path, TORCH), "leave", limit=f"umask {umask};")
    assert_found(done)
    (kept,) = (tmp_path / "paceline-out").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in kept.glob("r*")} == {0o600}
    assert os.access(kept, os.W_OK)


def test_a_rank_that_had_no_room_to_say_why_it_is_not_watched_is_told_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "problem.17").touch()
    (tmp_path / "problem.18").write_text("rank 3 cannot be watched: no reason")
    rings = LocalRings(tmp_path)
    try:
        assert rings.problems() == [
            "process 17 cannot be watched: there was no room to say why", "rank 3 cannot be watched: no reason"
        ]  # fmt: skip
    finally:
        rings.close()
