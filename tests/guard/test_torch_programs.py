"""Real torch.distributed programs under `paceline run`: broken ones get their diagnosis, correct ones get silence.

A program marks with `# <- here` each line that a diagnosis may name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.programs

PROGRAMS = Path(__file__).parent / "programs" / "torch"
BROKEN, CORRECT = PROGRAMS / "broken", PROGRAMS / "correct"
DEADLINE = 90.0
FINDING_CODE = 90

Ranks = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A broken program, and what must be said about it."""

    program: str
    num_ranks: int
    kind: str
    field: str | None
    ranks: tuple[Ranks, ...]  # any of these: ranks out of line, more than one answer where there is no minority
    causes: tuple[str, ...] = ()  # any, if none is given
    launcher: str = "split"
    parts_before: bool = False  # the marked lines are where ranks parted, before it failed


def case(
    program: str,
    num_ranks: int,
    kind: str,
    field: str | None,
    *ranks: Ranks,
    cause: str = "",
    launcher: str = "split",
    parts_before: bool = False,
) -> Case:
    return Case(program, num_ranks, kind, field, ranks, tuple(cause.split()), launcher, parts_before)


BROKEN_CASES = (
    # calls that differ
    case(
        "all_reduce_against_barrier",
        2,
        "mismatch",
        "operation",
        (0, 1),
        (1,),
        cause="rank-conditional-call",
        launcher="own",
    ),
    case("all_reduce_against_all_gather", 3, "mismatch", "operation", (2,)),
    case("broadcast_roots_differ", 3, "mismatch", "root", (2,), cause="root"),
    case("sum_against_product", 2, "mismatch", "reduction", (0, 1), cause="reduction"),
    case("float32_against_float64", 2, "mismatch", "dtype", (0, 1), cause="dtype"),
    case("all_reduce_counts_differ", 3, "mismatch", "count", (1,), cause="shape"),
    case("short_last_batch", 7, "mismatch", "count", (6,), cause="shape"),
    case("padded_twice", 3, "mismatch", "count", (1,), cause="shape", launcher="torchrun"),
    case("broadcast_object_against_gather_object", 3, "mismatch", "operation", (0,), cause="rank-conditional-call"),
    case("async_counts_differ", 2, "mismatch", "count", (0, 1), cause="shape"),
    case("functional_collectives_differ", 3, "mismatch", "operation", (1,), cause="rank-conditional-call"),
    # ranks that call at other times, or not at all
    case("all_reduce_on_some_ranks", 3, "mismatch", "operation", (0,), (1, 2), cause="rank-conditional-call"),
    case("one_step_less_then_barrier", 4, "mismatch", "operation", (2,), cause="uneven-steps"),
    case("one_step_less_then_end", 2, "peer-gone", None, (1,), cause="uneven-steps", launcher="own"),
    case("ddp_one_batch_less_then_barrier", 2, "mismatch", "operation", (1,), cause="uneven-steps"),
    case("ddp_one_batch_less_then_end", 2, "peer-gone", None, (1,), cause="uneven-steps", launcher="torchrun"),
    case("ddp_skips_nan", 3, "mismatch", "operation", (1,), cause="uneven-steps rank-conditional-call"),
    case("fsdp_skips_a_step", 3, "mismatch", "count", (1,), cause="skipped-call"),
    case("shifted_barrier", 3, "mismatch", "operation", (0,), cause="rank-conditional-call", parts_before=True),
    case("validation_on_rank_0", 3, "mismatch", "count", (0,), cause="rank-conditional-call"),
    case("caught_second_init_then_counts_differ", 2, "mismatch", "count", (0, 1), cause="shape"),
    case("early_stop_on_one_rank", 2, "mismatch", "operation", (1,), (0, 1), cause="uneven-steps"),
    # groups
    case("groups_in_other_order", 2, "deadlock", "communicator", (0, 1), cause="call-order"),
    case("new_group_ranks_differ", 4, "mismatch", "communicator", (0, 1, 2, 3), cause="group"),
    case("new_group_by_members_only", 3, "mismatch", "operation", (2,), (0, 1), cause="rank-conditional-call"),
    # messages
    case("receive_before_send", 2, "deadlock", None, (0, 1), cause="receive-receive"),
    case("wrong_tag", 2, "message", "tag", (0, 1), cause="wrong-tag"),
    case("wrong_source", 3, "message", "source", (0, 2), (0, 1, 2), cause="wrong-source"),
    case("receive_too_small", 2, "message", "count", (0, 1), cause="truncated"),
    case("message_of_another_dtype", 2, "message", "dtype", (0, 1), cause="dtype"),
    case("no_such_destination", 2, "argument", "source", (1,), cause="no-such-rank"),
    case("irecv_without_send", 2, "deadlock", None, (0,), (0, 1)),
    # ranks that end
    case("exception_before_all_reduce", 2, "peer-gone", None, (1,), cause="exception", launcher="module"),
    case("exception_under_a_hook", 2, "peer-gone", None, (1,), cause="exception", launcher="torchrun"),
    case("sys_exit_before_all_reduce", 2, "peer-gone", None, (1,), cause="early-exit"),
    case("os_exit_before_all_reduce", 2, "peer-gone", None, (1,), cause="early-exit", launcher="own"),
    case("os_exit_before_send", 2, "peer-gone", None, (1,), cause="early-exit"),
    case("killed_before_all_reduce", 2, "peer-gone", None, (1,), cause="killed"),
    case("disk_is_full", 2, "peer-gone", None, (0,), cause="disk-full", launcher="own"),
    case("memory_is_full", 2, "peer-gone", None, (1,), cause="out-of-memory", launcher="own"),
)


def environment() -> dict[str, str]:
    """Return ours, with the programs' folder, and one thread per rank."""
    found = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "OMP_NUM_THREADS": "1", "PATH": found, "PYTHONPATH": str(CORRECT), "PYTHONWARNINGS": "ignore"}


def run(command: list[str], folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        input=text,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    # ranks that were split off one process write to files of their own
    ended.stdout += "".join(path.read_text() for path in sorted(folder.glob("[0-9].out")))
    ended.stderr += "".join(path.read_text() for path in sorted(folder.glob("[0-9].err")))
    return ended


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


def watched(launcher: str, num_ranks: int, *program: str) -> list[str]:
    """Return the command that starts ranks under the guard, by our own launcher in its short form."""
    # on a machine that is busy with other work ranks may wait long, which is told but is no finding
    guard = [sys.executable, "-m", "paceline", "run", "--json", "outcome.json", "--notice", "100"]
    if launcher == "own":
        return [*guard, "-n", str(num_ranks), "--carrier", "torch", *program]
    return [*guard, "--", *started(launcher, num_ranks, *program)]


def outcome_in(folder: Path) -> dict[str, Any]:
    outcome: dict[str, Any] = json.loads((folder / "outcome.json").read_text())
    return outcome


def marked_lines(program: Path) -> set[str]:
    lines = program.read_text().splitlines()
    return {f"{program.name}:{number}" for number, line in enumerate(lines, start=1) if line.endswith("# <- here")}


def lines_in(part: dict[str, Any] | None) -> set[str]:
    """Return the lines that the groups of a finding, or of its divergence, name."""
    groups = [] if part is None else part["groups"]
    return {Path(group["site"]).name for group in groups if group["site"]}


def test_every_broken_program_is_in_the_table() -> None:
    assert sorted(path.stem for path in BROKEN.glob("*.py")) == sorted(case.program for case in BROKEN_CASES)


@pytest.mark.parametrize("case", BROKEN_CASES, ids=lambda case: case.program)
def test_a_broken_program_ends_with_its_diagnosis(case: Case, tmp_path: Path) -> None:
    program = BROKEN / f"{case.program}.py"
    ended = run(watched(case.launcher, case.num_ranks, str(program)), tmp_path / "run")
    assert ended.returncode == FINDING_CODE, ended.stderr
    outcome = outcome_in(tmp_path / "run")
    finding = outcome["finding"]
    assert (outcome["outcome"], outcome["exit_code"]) == ("finding", FINDING_CODE)
    assert (finding["kind"], finding["field"]) == (case.kind, case.field), finding
    assert tuple(finding["ranks"]) in case.ranks, finding
    assert not case.causes or finding["cause"] in case.causes, finding
    assert marked_lines(program) & (lines_in(finding) | lines_in(finding["divergence"])), finding
    assert not case.parts_before or marked_lines(program) == lines_in(finding["divergence"]), finding
    assert f"paceline: {finding['summary']}" in ended.stderr
    assert 0 <= finding["latency_ms"] < DEADLINE * 1000  # how fast it is, benchmarks/detection.py measures


# number of ranks, launcher, program and its arguments
CORRECT_CASES: dict[str, tuple[int, str, tuple[str, ...]]] = {
    "every collective": (3, "split", ("every_collective.py",)),
    "every kind of message": (3, "split", ("messages.py",)),
    "an init that fails and is made again": (3, "split", ("init_again.py",)),
    "empty tensors of another type": (3, "split", ("empty_tensors.py",)),
    "groups, threads, and the world made again": (4, "split", ("groups.py",)),
    "stragglers": (2, "split", ("stragglers.py",)),
    "limits of the script's own": (2, "split", ("own_timeouts.py",)),
    "loader workers and other processes": (2, "own", ("data_workers.py",)),
    "ranks made by torch.multiprocessing": (1, "python", ("spawned.py",)),
    "data-parallel training": (2, "split", ("data_parallel.py",)),
    "collectives in compiled functions": (2, "torchrun", ("compiled.py",)),
    "sharded tensors, models and checkpoints": (2, "split", ("sharded.py",)),
    "a module": (2, "module", ("-m", "package_of_a_user.train", "--lr", "0.1")),
    "ranks of MPI": (2, "mpiexec", ("mpi_and_torch.py",)),
}


@pytest.mark.parametrize("name", CORRECT_CASES)
def test_a_correct_program_ends_as_it_does_without_the_guard(name: str, tmp_path: Path) -> None:
    num_ranks, launcher, (first, *arguments) = CORRECT_CASES[name]
    if launcher == "mpiexec":
        pytest.importorskip("mpi4py")
    program = [first if first == "-m" else str(CORRECT / first), *arguments]
    bare = run(started(launcher, num_ranks, *program), tmp_path / "bare")
    guarded = run(watched(launcher, num_ranks, *program), tmp_path / "guarded")
    assert bare.returncode == 0, bare.stderr
    assert guarded.returncode == 0, guarded.stderr
    assert bare.stdout
    assert sorted(guarded.stdout.splitlines()) == sorted(bare.stdout.splitlines())
    assert "paceline:" not in guarded.stderr
    assert outcome_in(tmp_path / "guarded") == {"version": 1, "outcome": "ok", "exit_code": 0, "finding": None}


def test_exit_code_input_and_output_are_those_of_the_script(tmp_path: Path) -> None:
    program = str(CORRECT / "own_exit_code.py")
    bare = run(started("own", 2, program), tmp_path / "bare", text="three words here")
    guarded = run(watched("own", 2, program), tmp_path / "guarded", text="three words here")
    assert guarded.returncode == bare.returncode == 3
    assert sorted(guarded.stdout.splitlines()) == sorted(bare.stdout.splitlines())
    assert "rank 0 ['three', 'words', 'here']" in guarded.stdout
    said = [line for line in guarded.stderr.splitlines() if not line.startswith("paceline:")]
    assert sorted(said) == sorted(bare.stderr.splitlines())
    assert outcome_in(tmp_path / "guarded") == {"version": 1, "outcome": "failed", "exit_code": 3, "finding": None}


def test_a_module_under_our_own_launcher_is_run_by_its_name(tmp_path: Path) -> None:
    python = sys.executable
    command = [python, "-m", "paceline", "run", "-n", "2", python, "-m", "package_of_a_user.train", "here"]
    ended = run(command, tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert "rank 1 2.0 ['here'] __main__" in ended.stdout
    assert "paceline:" not in ended.stderr
