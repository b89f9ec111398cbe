"""Real mpi4py programs under `paceline run`: broken ones are diagnosed, correct ones run as they do without it.

A broken program says in its comments what must be found in it (see broken_programs.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from tests.guard.broken_programs import (
    Expectation,
    ExpectedWarning,
    broken_cases,
    cases_to_repair,
    marked_lines,
    missed_programs,
    read_world_size,
    repaired,
    score,
    warned_cases,
)
from tests.guard.program_files import KINDS, programs

from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.launch.mpiexec import find_mpiexec

pytestmark = pytest.mark.programs

_DEADLINE_SECONDS = 60.0
_INPUT = "alpha beta\ngamma\n"
# Without the guard MPICH leaves shared memory behind where it ends a rank because another has ended with a code. These
# run one after the other: what the guard leaves is seen, and what MPICH leaves is removed.
_LEAVES_SEGMENTS = {"aborts", "all_exit_with_3", "all_raise", "exits_at_once"}


_BROKEN = broken_cases("mpi", find_mpiexec().vendor)

_MISSED = missed_programs("mpi")

_WARNED = warned_cases("mpi", find_mpiexec().vendor)

_CORRECT = programs("mpi", "correct")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    exit_code: int
    out: str
    err: str
    left: list[str]  # folders of Open MPI's launcher


class _Running:
    """A command that was started in a folder of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        folder.mkdir()
        self._out, self._err = folder / "out.txt", folder / "err.txt"
        (folder / "in.txt").write_text(_INPUT)
        environment = dict(os.environ)
        # two launchers of Open MPI that start at the same moment must not share a folder; its paths must be short
        self._session = tempfile.TemporaryDirectory(prefix="pl", dir="/tmp", ignore_cleanup_errors=True)
        environment["TMPDIR"] = self._session.name
        with open(folder / "in.txt") as given, open(self._out, "wb") as out, open(self._err, "wb") as err:
            self._process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=given, stdout=out, stderr=err, start_new_session=True
            )

    def wait(self) -> Ended:
        try:
            code = self._process.wait(timeout=_DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            pytest.fail(f"did not end in {_DEADLINE_SECONDS:.0f} s: {self._err.read_text(errors='replace')}")
        left = [path.name for path in Path(self._session.name).glob("ompi.*")]
        self._session.cleanup()
        return Ended(exit_code=code, out=_text(self._out), err=_text(self._err), left=left)

    def _kill(self) -> None:
        process = psutil.Process(self._process.pid)
        for one in [process, *process.children(recursive=True)]:
            one.kill()
        self._process.wait()
        self._session.cleanup()


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def _without_numbers(text: str) -> list[str]:
    """Return the lines that a library has written, without its process ids."""
    return sorted(re.sub(r"\d+", "#", line) for line in text.splitlines())


def _job(program: Path, world_size: int) -> list[str]:
    return [*find_mpiexec().command(world_size, clean_up=True), sys.executable, str(program)]


def _watched(program: Path, world_size: int, told: Path, *options: str) -> list[str]:
    # on a machine that is busy with other work ranks may wait long, which is told but is no finding
    guard = [sys.executable, "-m", "paceline", "run", "--json", str(told), "--notice", "100"]
    return [*guard, *options, "--", *_job(program, world_size)]


def _run_both(program: Path, world_size: int, told: Path) -> tuple[Ended, Ended]:
    """Run a program under the guard and without it: at the same time, so that the guard has to bear a load."""
    running = _Running(_watched(program, world_size, told), told.parent / "watched")
    alone = program.stem in _LEAVES_SEGMENTS
    watched = running.wait() if alone else None
    before = shared_files_now()
    bare = _Running(_job(program, world_size), told.parent / "bare").wait()
    if watched is not None:
        _wait_until_nobody_works_in(told.parent / "bare")  # while a rank goes, it still holds its shared memory
        remove_leftovers(before)
        return watched, bare
    return running.wait(), bare


def _wait_until_nobody_works_in(folder: Path) -> None:
    """Wait for ranks that are killed and not gone yet: a launcher may end before they do."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while any(_works_in(path, folder) for path in Path("/proc").glob("[0-9]*/cwd")):
        assert time.monotonic() < deadline, f"ranks of {folder} do not go"
        time.sleep(0.02)


def _works_in(link: Path, folder: Path) -> bool:
    try:
        return os.readlink(link) == str(folder)
    except OSError:
        return False  # it has gone


@pytest.mark.parametrize("case", _BROKEN, ids=lambda case: case.id)
def test_a_broken_program_ends_with_a_finding_that_names_ranks_line_and_cause(
    case: Expectation, tmp_path: Path
) -> None:
    told = tmp_path / "told.json"
    begun = time.monotonic()
    ended = _Running(_watched(case.program, case.world_size, told), tmp_path / "watched").wait()
    assert ended.exit_code == 90, ended.err
    assert ended.left == []
    outcome = json.loads(told.read_text())
    assert (outcome["version"], outcome["outcome"], outcome["exit_code"]) == (1, "finding", 90)
    finding = outcome["finding"]
    assert score(case, finding).is_right, (score(case, finding), ended.err)
    assert finding["summary"] in ended.err
    assert finding["advice"] in ended.err
    assert 0 <= finding["latency_ms"] < (time.monotonic() - begun) * 1000


@pytest.mark.parametrize("case", cases_to_repair(_BROKEN), ids=lambda case: case.id)
def test_a_program_that_followed_the_advice_ends_well(case: Expectation, tmp_path: Path) -> None:
    program, told = tmp_path / case.program.name, tmp_path / "told.json"
    program.write_text(repaired(case.program))
    ended = _Running(_watched(program, case.world_size, told), tmp_path / "watched").wait()
    assert ended.exit_code == 0, ended.err
    assert "paceline:" not in ended.err
    outcome = json.loads(told.read_text())
    assert (outcome["finding"], outcome["warnings"]) == (None, [])


def _check_that_nothing_is_said(program: Path, folder: Path) -> None:
    told = folder / "told.json"
    _Running(_watched(program, read_world_size(program), told), folder / "watched").wait()
    outcome = json.loads(told.read_text())
    assert (outcome["finding"], outcome["warnings"]) == (None, [])


@pytest.mark.parametrize("program", _MISSED, ids=lambda program: program.stem)
def test_nothing_is_said_of_a_program_whose_error_is_not_found(program: Path, tmp_path: Path) -> None:
    """What is said would be wrong: if it is right, the program may state it in place of `not found`."""
    _check_that_nothing_is_said(program, tmp_path)
    fixed = tmp_path / program.name
    fixed.write_text(repaired(program))
    ended = _Running(_watched(fixed, read_world_size(program), tmp_path / "told.json"), tmp_path / "repaired").wait()
    assert ended.exit_code == 0, ended.err
    assert "paceline:" not in ended.err


@pytest.mark.parametrize("program", _CORRECT, ids=lambda program: program.stem)
def test_a_correct_program_runs_as_it_does_without_the_guard(program: Path, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    watched, bare = _run_both(program, read_world_size(program), told)
    assert watched.exit_code == bare.exit_code, watched.err
    assert sorted(watched.out.splitlines()) == sorted(bare.out.splitlines()), watched.err
    said = [line for line in watched.err.splitlines() if line.startswith("paceline:")]
    if bare.exit_code == 0:
        assert not said
        assert _without_numbers(watched.err) == _without_numbers(bare.err)
    else:
        assert all("no rank fell out of line" in line for line in said), watched.err
    outcome = json.loads(told.read_text())
    assert outcome["outcome"] == ("failed" if bare.exit_code else "ok")
    assert outcome["exit_code"] == bare.exit_code
    assert (outcome["finding"], outcome["warnings"]) == (None, [])


@pytest.mark.parametrize("case", _WARNED, ids=lambda case: case.id)
def test_a_program_that_ends_well_is_warned_about(case: ExpectedWarning, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    ended = _Running(_watched(case.program, case.world_size, told, *case.options), tmp_path / "watched").wait()
    outcome = json.loads(told.read_text())
    # MPICH itself ends a job badly now and then in which messages are left, without the guard too
    assert (ended.exit_code == 90) == case.is_strict, ended.err
    assert outcome["finding"] is None
    assert case.fits(outcome["warnings"]), (outcome["warnings"], ended.err)
    (warning,) = outcome["warnings"]
    assert ended.err.count(f"paceline: warning: {warning['summary']}") == 1
    assert warning["advice"] in ended.err


@pytest.mark.parametrize("case", cases_to_repair(_WARNED), ids=lambda case: case.id)
def test_a_program_that_followed_the_advice_of_a_warning_gets_none(case: ExpectedWarning, tmp_path: Path) -> None:
    program, told = tmp_path / case.program.name, tmp_path / "told.json"
    program.write_text(repaired(case.program))
    ended = _Running(_watched(program, case.world_size, told, *case.options), tmp_path / "watched").wait()
    assert ended.exit_code == 0, ended.err
    assert "paceline:" not in ended.err
    assert json.loads(told.read_text())["warnings"] == []


def test_every_broken_program_marks_a_line() -> None:
    wrong = [*programs("mpi", "broken"), *programs("mpi", "warned")]
    assert not [program.name for program in wrong if not marked_lines(program)]


def test_no_program_knows_of_paceline() -> None:
    assert not [path.name for kind in KINDS for path in programs("mpi", kind) if "paceline" in path.read_text()]
