"""The live view on a real terminal, with real ranks: `paceline run --live` and `paceline watch`."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.helpers.fake_terminal import Terminal
from tests.helpers.run_in_progress import folder_of_run

from paceline.launch.mpiexec import find_mpiexec

_DEADLINE = 60.0

# Ranks go on until the test says so; rank 1 is late at each barrier and says something now and then.
STEPS = """
    import os, sys, time
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    step = 0
    while True:
        step += 1
        time.sleep(0.01 + 0.03 * (world.rank == 1))
        ends = world.bcast(os.path.exists("end"))
        world.Barrier()
        if world.rank == 1 and step % 10 == 1:
            print(f"\\x1b[32mloss\\x1b[0m {step}", flush=True)
        if ends:
            break
    if os.path.exists("part"):
        if world.rank == 1:
            world.bcast(1)
    world.Barrier()
    print("done\\n", end="", flush=True)
"""

Start = Callable[..., Terminal]


def paceline(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "paceline", *arguments]


def job(folder: Path, ranks: int = 3) -> list[str]:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(STEPS))
    return [*find_mpiexec().command(ranks, clean_up=True), sys.executable, str(script)]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    opened: list[Terminal] = []

    def begin(*command: str, rows: int = 30, columns: int = 100, env: Mapping[str, str] | None = None) -> Terminal:
        opened.append(Terminal(command, cwd=tmp_path, columns=columns, rows=rows, env=env))
        return opened[-1]

    yield begin
    for terminal in opened:
        terminal.close()


def test_the_view_stays_below_what_ranks_print_follows_the_size_and_goes_in_the_end(
    tmp_path: Path, start: Start
) -> None:
    terminal = start(*paceline("run", "--live", "--", *job(tmp_path)))
    lines = terminal.wait_for(r"(?s)(Barrier|bcast) at train.py:\d+.*rank 1 is the last to reach")
    head = next(number for number, line in enumerate(lines) if line.startswith("paceline  3 ranks"))
    assert [line.split()[0] for line in lines[head + 2 : head + 5]] == ["0", "1", "2"]
    assert not any("loss" in line for line in lines[head:])
    assert any(line.startswith("loss 1") for line in lines[:head])
    terminal.resize(70, 20)
    lines = terminal.wait_for(lambda lines: any(line.startswith("─" * 69) for line in lines[:20]))
    assert len([line for line in lines if line.startswith("paceline  3 ranks")]) == 1
    assert all(len(line) <= 70 for line in lines)
    terminal.resize(50, 20)  # too narrow: it makes way
    terminal.wait_for(lambda lines: not any(line.startswith("paceline  3") for line in lines))
    terminal.resize(100, 30)
    terminal.wait_for(r"paceline  3 ranks")
    (tmp_path / "end").touch()
    assert terminal.finish() == 0
    text = terminal.everything
    assert "paceline  3 ranks" not in text
    assert text.count("done") == 3
    assert "\x1b[r" in terminal.written.decode()[-2000:]  # the whole terminal scrolls again


def test_a_finding_ends_the_view_and_is_told_as_ever(tmp_path: Path, start: Start) -> None:
    (tmp_path / "part").touch()
    terminal = start(*paceline("run", "--live", "--json", "o.json", "--", *job(tmp_path)))
    terminal.wait_for(r"paceline  3 ranks")
    (tmp_path / "end").touch()
    assert terminal.finish() == 90
    assert "only rank 1 makes the bcast at train.py:17" in terminal.everything.replace("\n", "")
    assert "paceline  3 ranks" not in terminal.everything
    assert json.loads((tmp_path / "o.json").read_text())["finding"]["ranks"] == [1]


def test_ctrl_c_ends_the_job_and_gives_the_terminal_back(tmp_path: Path, start: Start) -> None:
    terminal = start(*paceline("run", "--live", "--", *job(tmp_path)))
    terminal.wait_for(r"paceline  3 ranks")
    terminal.press(b"\x03")
    assert terminal.finish() != 90
    assert "paceline  3 ranks" not in terminal.everything
    assert "paceline: ended by SIGINT" in terminal.everything


@pytest.mark.parametrize(("rows", "env"), [(8, {}), (30, {"TERM": "dumb"})])
def test_a_terminal_that_cannot_gets_plain_lines(tmp_path: Path, start: Start, rows: int, env: dict[str, str]) -> None:
    terminal = start(*paceline("run", "--live", "--every", "0.3", "--", *job(tmp_path)), rows=rows, env=env)
    terminal.wait_for(r"paceline: 3 ranks after \d+ s")
    (tmp_path / "end").touch()
    assert terminal.finish() == 0
    assert b"\x1b[1;" not in terminal.written  # no part of the terminal was taken


def test_without_a_terminal_there_are_plain_lines(tmp_path: Path) -> None:
    command = paceline("run", "--live", "--every", "0.2", "--", *job(tmp_path, ranks=2))
    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        lines = [line for line in iter(process.stderr.readline, "") if _says_all(line, tmp_path)]
    assert process.returncode == 0
    assert "steps/s at train.py:" in lines[0]
    assert "% of the time in calls" in lines[0]
    assert "\x1b" not in lines[0]


def _says_all(line: str, folder: Path) -> bool:
    if "rank 1 is the last" in line and "steps/s" in line:
        (folder / "end").touch()
        return True
    return False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--every", "1", "--", "true"], "--every goes with --live"),
        (["run", "--live", "--every", "0", "--", "true"], "--every must be more than 0"),
        (["watch", "--every", "-1"], "--every must be more than 0"),
        (["watch", "no/such/place"], "there is no folder no/such/place"),
        (["watch", "."], "no run is in progress in ., and none has left a diagnosis there"),
    ],
)
def test_wrong_usage_is_said_in_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = subprocess.run(
        paceline(*arguments), cwd=tmp_path, capture_output=True, text=True, timeout=_DEADLINE, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_watch_attaches_leaves_the_run_alone_and_tells_what_it_found(tmp_path: Path, start: Start) -> None:
    (tmp_path / "part").touch()
    run = subprocess.Popen(
        paceline("run", "--out", "kept", "--", *job(tmp_path)), cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert run.stdout is not None
        assert "loss" in run.stdout.readline()
        first = start(*paceline("watch", "."))
        first.wait_for(r"paceline  3 ranks")
        first.press(b"\x03")
        assert first.finish() == 0
        assert "paceline: stopped watching; the run continues" in first.everything
        assert run.poll() is None
        second = start(*paceline("watch", "kept"))
        second.wait_for(r"rank 1 is the last")
        (tmp_path / "end").touch()
        assert second.finish() == 90
        run.communicate(timeout=_DEADLINE)
    finally:
        run.kill()
        run.communicate()
    assert run.returncode == 90
    text = second.everything.replace("\n", "")
    assert "the run has ended with code 90:" in text
    assert "only rank 1 makes the bcast at train.py:17" in text
    assert "cause: rank-conditional-call" in text
    done = subprocess.run(  # and once it has ended
        paceline("watch", "kept"), cwd=tmp_path, capture_output=True, text=True, timeout=_DEADLINE, check=False
    )
    assert done.returncode == 90
    assert "only rank 1 makes the bcast" in done.stderr


def test_watch_says_that_a_run_was_killed(tmp_path: Path) -> None:
    run = subprocess.Popen(paceline("run", "--", "sleep", "60"), cwd=tmp_path, stderr=subprocess.DEVNULL)
    watch = folder = None
    try:
        folder = folder_of_run(run.pid)
        watch = subprocess.Popen(paceline("watch", str(tmp_path)), stderr=subprocess.PIPE, text=True)
        assert watch.stderr is not None
        assert f"(pid {run.pid}); Ctrl-C leaves it alone" in watch.stderr.readline()
        run.send_signal(signal.SIGKILL)
        run.wait()
        _, said = watch.communicate(timeout=_DEADLINE)
        assert "the run ended without reporting a result: its paceline process was killed" in said
        assert watch.returncode == 0
    finally:
        for process in (run, watch):
            if process is not None:
                process.kill()
                process.communicate()
        if folder is not None:
            shutil.rmtree(folder)
