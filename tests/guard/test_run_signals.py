"""How a run ends by signals: those to `paceline run`, to all of its terminal, and one that kills it alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from tests.guard.small_runs import DEADLINE, ONE_IS_LATE, mpiexec, paceline, run, write
from tests.helpers.run_in_progress import folder_of_run

from paceline.launch.leftovers import remove_leftovers, shared_files_now


def _start_waiting_job(folder: Path) -> subprocess.Popen[str]:
    """Start a job whose ranks wait for a straggler, and return when they do."""
    script = write(folder, "train.py", ONE_IS_LATE.replace("2.5", "300"))
    # SIGINT may be ignored where tests run
    process = subprocess.Popen(
        paceline("run", "--notice", "0.2", "--", *mpiexec(2), sys.executable, str(script)), cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    assert process.stderr is not None
    assert "has waited" in process.stderr.readline()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_whole_tree(tmp_path: Path, number: signal.Signals) -> None:
    process = _start_waiting_job(tmp_path)
    tree = psutil.Process(process.pid).children(recursive=True)
    assert len(tree) >= 3  # the launcher and two ranks
    process.send_signal(number)
    process.communicate(timeout=DEADLINE)
    assert process.returncode in (128 + number, number)  # what the launcher says to a signal: MPICH has either
    _, alive = psutil.wait_procs(tree, timeout=5)
    assert not alive


def test_ctrl_c_on_a_terminal_ends_the_whole_tree(tmp_path: Path) -> None:
    process = _start_waiting_job(tmp_path)
    tree = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode not in (0, 90)  # it is what the launcher says: MPICH has 130, 255, or 0 by mistake
    assert "rank 0 has waited" in err  # the one who pressed it wants to know why it hung
    _, alive = psutil.wait_procs(tree, timeout=5)
    assert not alive


# starts two ranks, and knows nothing of how they end
CARELESS_LAUNCHER = """
    import os, signal, socket, subprocess, sys
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    ranks = [subprocess.Popen([sys.executable, sys.argv[1]], env={**os.environ, **place, "RANK": str(rank)})
             for rank in range(2)]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for rank in ranks:
        rank.wait()
    """
SLEEPS = """
    import signal, sys, time
    import torch.distributed as dist
    signal.signal(signal.SIGINT, signal.default_int_handler)
    dist.init_process_group("gloo")
    dist.barrier()
    print("there", file=sys.stderr, flush=True)
    time.sleep(600)
    """


def test_ctrl_c_is_a_failure_though_the_launcher_knows_nothing_of_its_ranks(tmp_path: Path) -> None:
    for name, text in (("launch.py", CARELESS_LAUNCHER), ("train.py", SLEEPS)):
        (tmp_path / name).write_text(textwrap.dedent(text))
    with open(tmp_path / "errors", "wb") as errors:
        process = subprocess.Popen(
            paceline("run", "--raw", "--", sys.executable, "launch.py", "train.py"), cwd=tmp_path,
            stderr=errors, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )  # fmt: skip
    deadline = time.monotonic() + DEADLINE
    while (tmp_path / "errors").read_text().count("there") < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(DEADLINE) == 128 + signal.SIGINT, (tmp_path / "errors").read_text()


SAVES = """
    import signal, sys, time
    import torch.distributed as dist
    dist.init_process_group("gloo")
    def save(*_):
        time.sleep(4)  # longer than a hang is waited for
        print("saved", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, save)
    print("ready", flush=True)
    while True:
        time.sleep(0.05)
"""


def test_ranks_that_save_when_told_to_end_have_the_time(tmp_path: Path) -> None:
    script = write(tmp_path, "train.py", SAVES)
    process = subprocess.Popen(
        paceline("run", "-n", "2", str(script)), cwd=tmp_path, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=DEADLINE)
    assert out == "saved\n" * 2
    assert process.returncode == 128 + signal.SIGTERM  # as the launcher says
    assert err.splitlines() == ["paceline: ended by SIGTERM"]


def test_a_second_signal_ends_the_job_at_once(tmp_path: Path) -> None:
    script = write(tmp_path, "train.py", SAVES.replace("sleep(4)", "sleep(400)"))
    process = subprocess.Popen(
        paceline("run", "-n", "1", str(script)), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 128 + signal.SIGTERM


def test_the_ranks_end_when_paceline_is_killed(tmp_path: Path) -> None:
    before = shared_files_now()
    process = _start_waiting_job(tmp_path)
    tree = psutil.Process(process.pid).children(recursive=True)
    folder = folder_of_run(process.pid)
    assert folder.is_dir()
    process.kill()
    process.communicate(timeout=DEADLINE)
    _, alive = psutil.wait_procs(tree, timeout=20)
    remove_leftovers(before)  # nobody else is left to do it
    for left in alive:
        left.kill()
    assert not alive
    for path in [folder, *folder.iterdir()]:  # the next run removes what a killed one has left, once it is a minute old
        os.utime(path, (0, 0))
    run(tmp_path, "--", "true")
    assert not folder.exists()
