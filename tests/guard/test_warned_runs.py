"""How `paceline run` tells warnings: once, on standard error and in the JSON, with the exit code that was asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from paceline.cli.main import main
from paceline.cli.run_verb import TAKE_A_VALUE, add_to
from paceline.guard.run.run_registry import OngoingRun, announce_warning, read_warnings
from paceline.guard.run.watch_options import WatchOptions, run_command
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.report.live.live_view import live_lines, live_text

_DEADLINE = 60.0
LEAKS = """
    from mpi4py import MPI
    for _ in range(200):
        MPI.COMM_WORLD.Dup()
"""
LEAVES_A_REQUEST = """
    from mpi4py import MPI
    pending = MPI.COMM_WORLD.Irecv(bytearray(1), source=0)
"""
LEAK, REQUEST = str(WarningCause.HANDLE_LEAK), str(WarningCause.REQUEST_NEVER_COMPLETED)


def run(
    folder: Path, text: str, *options: str, json_file: str = "told.json"
) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Run a program on one rank under the guard."""
    (folder / "program.py").write_text(textwrap.dedent(text))
    command = [sys.executable, "-m", "paceline", "run", "--json", json_file, *options, "--", sys.executable]
    ended = subprocess.run(
        [*command, "program.py"], cwd=folder, capture_output=True, text=True, timeout=_DEADLINE, check=False
    )
    return ended, json.loads((folder / json_file).read_text())


def test_a_warning_is_told_once_and_the_exit_code_stays_the_jobs_own(tmp_path: Path) -> None:
    ended, told = run(tmp_path, f"{LEAKS}    raise SystemExit(5)\n")
    assert (ended.returncode, told["exit_code"]) == (5, 5)
    (warning,) = told["warnings"]
    assert (warning["cause"], warning["ranks"], warning["sites"]) == (LEAK, [0], ["program.py:4"])
    assert ended.stderr.count("paceline: warning:") == 1
    assert f"{warning['summary']} [{LEAK}]\n  change: {warning['advice']}" in ended.stderr


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--strict"], 90),
        ([f"--strict={LEAK}"], 90),
        ([f"--strict={REQUEST},{LEAK}"], 90),
        ([f"--strict={REQUEST}"], 0),
    ],
)
def test_strict_makes_the_exit_code_90(tmp_path: Path, options: list[str], code: int) -> None:
    ended, told = run(tmp_path, LEAKS, *options)
    assert (ended.returncode, told["exit_code"]) == (code, code)
    assert len(told["warnings"]) == 1
    assert ("because of --strict" in ended.stderr) == (code == 90)


@pytest.mark.parametrize("comment", ["", f"  # paceline: ignore[{LEAK}]", "  # paceline: ignore"])
def test_an_option_or_a_comment_at_the_line_silences_it(tmp_path: Path, comment: str) -> None:
    options = [] if comment else ["--ignore", LEAK]
    ended, told = run(tmp_path, LEAKS.replace(".Dup()", f".Dup(){comment}"), "--strict", *options)
    assert (ended.returncode, told["warnings"]) == (0, [])
    assert "paceline:" not in ended.stderr


def test_a_comment_for_another_cause_does_not(tmp_path: Path) -> None:
    _, told = run(tmp_path, LEAKS.replace(".Dup()", f".Dup()  # paceline: ignore[{REQUEST}]"))
    assert len(told["warnings"]) == 1


def test_a_job_that_raises_is_not_warned_about_what_it_left(tmp_path: Path) -> None:
    _, told = run(tmp_path, LEAVES_A_REQUEST)
    assert [warning["cause"] for warning in told["warnings"]] == [REQUEST]
    _, told = run(tmp_path, f'{LEAVES_A_REQUEST}    raise ValueError("no")\n')
    assert told["warnings"] == []


TAKES_ANY = """
    import sys, time
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    if comm.rank:
        comm.send(comm.rank, dest=0)
    comm.Barrier()
    if comm.rank == 0:
        print([comm.recv() for _ in range(1, comm.size)])
"""


def test_a_race_is_told_only_if_it_is_asked_for_and_is_noted_in_the_records(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(textwrap.dedent(TAKES_ANY))

    def run_ranks(*options: str) -> tuple[subprocess.CompletedProcess[str], Any, Any]:
        guard = [sys.executable, "-m", "paceline", "run", "--out", "kept", "--json", "told.json", *options]
        command = [*guard, "-n", "3", "--carrier", "mpi", "program.py"]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=_DEADLINE, check=False)
        kept = max(tmp_path.glob("kept/**/diagnosis.json"), key=lambda path: path.stat().st_mtime_ns)
        return ended, json.loads((tmp_path / "told.json").read_text()), json.loads(kept.read_text())

    ended, told, kept = run_ranks()
    assert (ended.returncode, told["warnings"]) == (0, [])
    assert "paceline: warning" not in ended.stderr
    assert [warning["cause"] for warning in kept["warnings"]] == ["message-race"]
    ended, told, kept = run_ranks("--strict=message-race")
    assert ended.returncode == 90
    (race,) = told["warnings"]
    assert (race["ranks"], race["sites"]) == ([0], ["program.py:9", "program.py:6"])
    assert race["summary"] in ended.stderr


@pytest.mark.parametrize("option", ["--strict=leak", "--ignore=leak", "--ignore=handle-leak,leak"])
def test_a_wrong_cause_is_wrong_usage(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", option, "--", "true"]) == 2
    assert "there is no cause 'leak'" in capsys.readouterr().err


def test_the_options_that_take_a_value_are_all_listed() -> None:
    import argparse

    verbs = argparse.ArgumentParser().add_subparsers()
    add_to(verbs)
    actions = verbs.choices["run"]._actions
    takes = {name for action in actions for name in action.option_strings if action.nargs is None}
    assert takes == set(TAKE_A_VALUE)


def test_a_run_in_a_process_of_its_own_gets_the_options() -> None:
    strict = frozenset({WarningCause.HANDLE_LEAK, WarningCause.MESSAGE_RACE})
    options = WatchOptions(
        strict=strict, ignored=frozenset({WarningCause.BUFFER_IN_USE}), compares_buffers=False, compares_results=True
    )
    words = run_command(["true"], options)
    assert "--strict=handle-leak,message-race" in words
    assert words[words.index("--ignore") + 1] == "buffer-in-use"
    assert words[words.index("--buffers") + 1] == "off"
    assert "--results" in words


CHANGES_WHAT_IT_SENDS = """
    import numpy as np
    from mpi4py import MPI
    part = np.zeros(3)
    request = MPI.COMM_WORLD.Isend(part, dest=0)
    part[1] = 1.0
    MPI.COMM_WORLD.Recv(np.empty(3), source=0)
    request.Wait()
"""


def test_buffers_are_not_compared_if_nobody_wants_it(tmp_path: Path) -> None:
    _, told = run(tmp_path, CHANGES_WHAT_IT_SENDS)
    assert [warning["cause"] for warning in told["warnings"]] == ["buffer-in-use"]
    _, told = run(tmp_path, CHANGES_WHAT_IT_SENDS, "--buffers", "off")
    assert told["warnings"] == []


def test_a_script_that_switches_the_guard_on_is_warned_too(tmp_path: Path) -> None:
    text = (
        "import paceline.guard\npaceline.guard.enable()\n" + textwrap.dedent(LEAKS) + "import time; time.sleep(1.5)\n"
    )
    (tmp_path / "program.py").write_text(text)
    ended = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True,
        timeout=_DEADLINE, check=False,
    )  # fmt: skip
    assert ended.returncode == 0
    assert f"[{LEAK}]" in ended.stderr


def test_the_live_view_shows_the_last_warning() -> None:
    lines = live_lines([], columns=100, rows=10, warning="2 so far, the last: leak\x1b[0m", colours=None)
    assert any("warnings: 2 so far, the last: leak" in line for line in lines)
    assert "\x1b[0m" not in "".join(lines)
    assert "warnings" not in live_text([], "leak")  # nobody has joined


def test_a_run_that_has_ended_is_shown_with_its_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warning = {"cause": LEAK, "ranks": [0], "summary": "a leak\x1b[2J", "advice": "free it", "sites": ["train.py:3"]}
    race = {**warning, "cause": "message-race", "summary": "a race"}
    diagnosis = {"version": 1, "outcome": "ok", "exit_code": 0, "finding": None, "warnings": [warning, race]}
    (tmp_path / "diagnosis.json").write_text(json.dumps(diagnosis))
    assert main(["watch", str(tmp_path)]) == 0
    told = capsys.readouterr().err
    assert "the run has ended with code 0, with warnings:" in told
    assert "paceline: warning: a leak" in told
    assert "\x1b" not in told
    assert "a race" not in told


def test_a_run_in_progress_tells_its_warnings_to_those_who_watch_it(tmp_path: Path) -> None:
    run = OngoingRun(folder=tmp_path, pid=1, command=("true",), cwd=tmp_path, out=None, began=0.0)
    assert read_warnings(run) == []
    warning = JobWarning(cause=WarningCause.HANDLE_LEAK, ranks=(0,), summary="leak", advice="free it")
    for _ in range(2):
        announce_warning(tmp_path, warning)
    assert read_warnings(run) == [warning, warning]
    with (tmp_path / "warnings.jsonl").open("a") as file:
        file.write('{"cause": "handle')  # one that is being written
    assert read_warnings(run) == [warning, warning]
    announce_warning(tmp_path / "gone", warning)  # a run that was ended has no folder any more
