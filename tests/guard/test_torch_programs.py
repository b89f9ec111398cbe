"""Real torch.distributed programs under `paceline run`: broken ones get their diagnosis, correct ones get silence.

A broken program says in its comments what must be found in it (see broken_programs.py).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from tests.guard.program_files import find_program, programs

from paceline.process.procfs import children_of

pytest.importorskip("torch")
pytestmark = pytest.mark.programs

DEADLINE = 90.0
FINDING_CODE = 90

WARNED_CASES = warned_cases("torch")
BROKEN_CASES = broken_cases("torch")


def environment() -> dict[str, str]:
    """Return ours, with the folder of a user's package, and one thread per rank."""
    found = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    packages = str(correct("package_of_a_user").parent)
    return {**os.environ, "OMP_NUM_THREADS": "1", "PATH": found, "PYTHONPATH": packages, "PYTHONWARNINGS": "ignore"}


def correct(name: str) -> Path:
    """Return the correct program of this name."""
    return find_program("torch", "correct", name)


def run(command: list[str], folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    with subprocess.Popen(
        command, cwd=folder, env=environment(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(text, timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            stacks = _stacks_below(process.pid)
            process.send_signal(signal.SIGTERM)  # a guard that is interrupted says who waits for whom
            process.send_signal(signal.SIGTERM)  # and at the second time it does not wait for ranks that hang
            _out, err = process.communicate()
            pytest.fail(f"the job has not ended after {DEADLINE} s\n{err}\n{stacks}")
    ended = subprocess.CompletedProcess(command, process.returncode, out, err)
    # ranks that were split off one process write to files of their own
    ended.stdout += "".join(path.read_text() for path in sorted(folder.glob("[0-9].out")))
    ended.stderr += "".join(path.read_text() for path in sorted(folder.glob("[0-9].err")))
    return ended


def _stacks_below(pid: int) -> str:
    """Return where all processes of a job are."""
    dump = [str(Path(sys.executable).with_name("py-spy")), "dump", "--nonblocking", "--pid"]
    answers = [
        subprocess.run([*dump, str(process)], capture_output=True, text=True, check=False)
        for process in sorted(children_of([pid]))
    ]
    return "\n".join(answer.stdout for answer in answers)


def started(launcher: str, num_ranks: int, *program: str) -> list[str]:
    """Return the command that starts ranks without the guard."""
    python = sys.executable
    per_node = ["--standalone", "--nproc-per-node", str(num_ranks)]
    split = [
        python,
        "-m",
        "paceline.lab.fork_ranks",
        str(num_ranks),
        ".",
        json.dumps({"ranks": []}),
        "torch.distributed",
    ]
    return {
        "split": [*split, *program],  # torch is imported once, which takes longer than most programs do
        "own": [python, "-m", "paceline.launch.local_ranks", str(num_ranks), python, *program],
        "torchrun": ["torchrun", *per_node, *program],
        "module": [python, "-m", "torch.distributed.run", *per_node, *program],
        "mpiexec": ["mpiexec", "-n", str(num_ranks), python, *program],
        "python": [python, *program],
    }[launcher]


def watched(launcher: str, num_ranks: int, *program: str, options: Sequence[str] = ()) -> list[str]:
    """Return the command that starts ranks under the guard, by our own launcher in its short form."""
    # on a machine that is busy with other work ranks may wait long, which is told but is no finding
    guard = [sys.executable, "-m", "paceline", "run", "--json", "outcome.json", "--notice", "100", *options]
    if launcher == "own":
        return [*guard, "-n", str(num_ranks), "--carrier", "torch", *program]
    return [*guard, "--", *started(launcher, num_ranks, *program)]


def outcome_in(folder: Path) -> dict[str, Any]:
    outcome: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    return outcome


@pytest.mark.parametrize("case", BROKEN_CASES, ids=lambda case: case.id)
def test_a_broken_program_ends_with_its_diagnosis(case: Expectation, tmp_path: Path) -> None:
    ended = run(watched(case.launcher, case.world_size, str(case.program)), tmp_path / "run")
    assert ended.returncode == FINDING_CODE, ended.stderr
    outcome = outcome_in(tmp_path / "run")
    finding = outcome["finding"]
    assert (outcome["outcome"], outcome["exit_code"]) == ("finding", FINDING_CODE)
    assert score(case, finding).is_right, (score(case, finding), finding)
    assert f"paceline: {finding['summary']}" in ended.stderr
    assert 0 <= finding["latency_ms"] < DEADLINE * 1000  # how fast it is, benchmarks/detection.py measures


@pytest.mark.parametrize("case", cases_to_repair(BROKEN_CASES), ids=lambda case: case.id)
def test_a_program_that_followed_the_advice_ends_well(case: Expectation, tmp_path: Path) -> None:
    program = tmp_path / case.program.name
    program.write_text(repaired(case.program))
    ended = run(watched("split", case.world_size, str(program)), tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert "paceline:" not in ended.stderr
    outcome = outcome_in(tmp_path / "run")
    assert (outcome["finding"], outcome["warnings"]) == (None, [])


@pytest.mark.parametrize("case", WARNED_CASES, ids=lambda case: case.id)
def test_a_program_that_ends_well_is_warned_about(case: ExpectedWarning, tmp_path: Path) -> None:
    ended = run(watched("split", case.world_size, str(case.program), options=case.options), tmp_path / "run")
    assert ended.returncode == (FINDING_CODE if case.is_strict else 0), ended.stderr
    outcome = outcome_in(tmp_path / "run")
    assert outcome["finding"] is None
    assert case.fits(outcome["warnings"]), (outcome["warnings"], ended.stderr)
    assert ended.stderr.count(f"paceline: warning: {outcome['warnings'][0]['summary']}") == 1


@pytest.mark.parametrize("case", cases_to_repair(WARNED_CASES), ids=lambda case: case.id)
def test_a_program_that_followed_the_advice_of_a_warning_gets_none(case: ExpectedWarning, tmp_path: Path) -> None:
    program = tmp_path / case.program.name
    program.write_text(repaired(case.program))
    ended = run(watched("split", case.world_size, str(program), options=case.options), tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert "paceline:" not in ended.stderr
    assert outcome_in(tmp_path / "run")["warnings"] == []


@pytest.mark.parametrize("program", missed_programs("torch"), ids=lambda program: program.stem)
def test_nothing_is_said_of_a_program_whose_error_is_not_found(program: Path, tmp_path: Path) -> None:
    """What is said would be wrong: if it is right, the program may state it in place of `not found`."""
    world_size = read_world_size(program)
    run(watched("split", world_size, str(program)), tmp_path / "run")
    outcome = outcome_in(tmp_path / "run")
    assert (outcome["finding"], outcome["warnings"]) == (None, [])
    fixed = tmp_path / program.name
    fixed.write_text(repaired(program))
    ended = run(watched("split", world_size, str(fixed)), tmp_path / "repaired")
    assert ended.returncode == 0, ended.stderr
    assert "paceline:" not in ended.stderr


def test_every_broken_program_marks_a_line() -> None:
    wrong = [*programs("torch", "broken"), *programs("torch", "warned")]
    assert not [program.name for program in wrong if not marked_lines(program)]


# number of ranks, launcher, program and its arguments
CORRECT_CASES: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "every collective": (3, "split", ("every_collective",)),
    "every kind of message": (3, "split", ("messages",)),
    "one rank first, and threads with groups": (3, "split", ("one_rank_first",)),
    "an init that fails and is made again": (3, "split", ("init_again",)),
    "an init that fails and is made again, and takes its time": (3, "split", ("slow_init_again",)),
    "empty tensors of another type": (3, "split", ("empty_tensors",)),
    "tensors without data": (2, "split", ("tensors_without_data",)),
    "uneven splits and lists of tensors": (3, "split", ("tables_of_counts",)),
    "groups, threads, and the world made again": (4, "split", ("groups",)),
    "stragglers": (2, "split", ("stragglers",)),
    "limits of the script's own": (2, "split", ("own_timeouts",)),
    "keys of a store": (3, "split", ("keys_of_a_store",)),
    "functions called on other ranks": (3, "split", ("rpc_calls_of_every_kind",)),
    "calls that are refused and made again": (3, "split", ("refused_and_made_again",)),
    "loader workers and other processes": (2, "own", ("data_workers",)),
    "ranks made by torch.multiprocessing": (1, "python", ("spawned",)),
    "data-parallel training": (2, "split", ("data_parallel",)),
    "collectives in compiled functions": (2, "torchrun", ("compiled",)),
    "sharded tensors, models and checkpoints": (2, "split", ("sharded",)),
    "works completed in every way": (2, "split", ("works_completed_in_every_way",)),
    "tensors shared by works": (2, "split", ("tensors_used_one_after_the_other",)),
    "works of libraries": (2, "split", ("works_of_libraries",)),
    "works kept in lists": (2, "split", ("works_kept_and_waited_for",)),
    "groups made and destroyed": (2, "split", ("groups_made_and_destroyed",)),
    "buckets in turn": (2, "split", ("buckets_in_turn",)),
    "receives from anybody": (3, "split", ("from_anybody_in_turn",)),
    "wrong arguments that are dealt with": (2, "split", ("errors_caught_and_handled",)),
    "a module": (2, "module", ("-m", "package_of_a_user.train", "--lr", "0.1")),
    "ranks of MPI": (2, "mpiexec", ("mpi_and_torch",)),
}


@pytest.mark.parametrize("name", CORRECT_CASES)
def test_a_correct_program_ends_as_it_does_without_the_guard(name: str, tmp_path: Path) -> None:
    num_ranks, launcher, (first, *arguments) = CORRECT_CASES[name]
    if launcher == "mpiexec":
        pytest.importorskip("mpi4py")
    program = [first if first == "-m" else str(correct(first)), *arguments]
    check_is_not_noticed(launcher, num_ranks, *program, folder=tmp_path)


def check_is_not_noticed(launcher: str, num_ranks: int, *program: str, folder: Path) -> None:
    """Run a correct program without the guard and with it: nothing tells one from the other."""
    bare = run(started(launcher, num_ranks, *program), folder / "bare")
    guarded = run(watched(launcher, num_ranks, *program), folder / "guarded")
    assert bare.returncode == 0, bare.stderr
    assert guarded.returncode == 0, guarded.stderr
    assert bare.stdout
    assert sorted(guarded.stdout.splitlines()) == sorted(bare.stdout.splitlines())
    assert "paceline:" not in guarded.stderr
    outcome = {"version": 1, "outcome": "ok", "exit_code": 0, "finding": None, "warnings": []}
    assert outcome_in(folder / "guarded") == outcome


def test_exit_code_input_and_output_are_those_of_the_script(tmp_path: Path) -> None:
    program = str(correct("own_exit_code"))
    bare = run(started("own", 2, program), tmp_path / "bare", text="three words here")
    guarded = run(watched("own", 2, program), tmp_path / "guarded", text="three words here")
    assert guarded.returncode == bare.returncode == 3
    assert sorted(guarded.stdout.splitlines()) == sorted(bare.stdout.splitlines())
    assert "rank 0 ['three', 'words', 'here']" in guarded.stdout
    said = [line for line in guarded.stderr.splitlines() if not line.startswith("paceline:")]
    assert sorted(said) == sorted(bare.stderr.splitlines())
    outcome = {"version": 1, "outcome": "failed", "exit_code": 3, "finding": None, "warnings": []}
    assert outcome_in(tmp_path / "guarded") == outcome


def test_a_module_under_our_own_launcher_is_run_by_its_name(tmp_path: Path) -> None:
    python = sys.executable
    command = [python, "-m", "paceline", "run", "-n", "2", python, "-m", "package_of_a_user.train", "here"]
    ended = run(command, tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert "rank 1 2.0 ['here'] __main__" in ended.stdout
    assert "paceline:" not in ended.stderr
