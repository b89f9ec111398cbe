"""Faults of the guard itself, and of what it depends on: told at once, and the job's exit code is kept."""

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

from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.rank_ends import rank_end
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.process_end import describe_error
from paceline.launch.mpiexec import find_mpiexec
from paceline.loader import LoadError
from paceline.loader.agreement.problem import Problem
from paceline.process.procfs import start_time

_DEADLINE = 60.0

# A stray write of some C code hits the record of rank 1; the job itself is right.
DAMAGED = """
    import sys, time
    from mpi4py import MPI
    from paceline.guard.rank.watched_process import SESSION
    from paceline.guard.shared_memory import layout
    world, what, code, seconds = MPI.COMM_WORLD, sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    world.Barrier()
    if world.rank == 1:
        ring = SESSION.recorder.ring
        if what == "text":
            end = ring.words[layout.TEXT_BYTES]
            ring.bytes[layout.TEXT_AT + end : layout.TEXT_AT + end + 8] = b"\\xff" * 7 + b"\\n"
            ring._text_end = ring.words[layout.TEXT_BYTES] = end + 8
        else:
            for word in range(9, 64):
                ring.words[word] = 0xDEADBEEF
    elif len(sys.argv) > 4:
        time.sleep(60)  # the others wait for it
    world.Barrier()
    time.sleep(seconds)
    world.Barrier()
    print("fine\\n", end="", flush=True)
    sys.exit(code)
    """
# Rank 1 leaves the others waiting, after more output than a pipe holds.
# (Under mpiexec the launcher itself dies of the pipe, as it does without the guard.)
LOUD = """
    import sys
    import torch.distributed as dist
    dist.init_process_group("gloo")
    for _ in range(5000):
        try:
            print("a line of the job" * 4, flush=True)
        except BrokenPipeError:
            sys.stdout = open("/dev/null", "w")
    if dist.get_rank() == 1:
        sys.exit(0)
    dist.barrier()
    """
COMPUTES = """
    import time
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()
    print("ready\\n", end="", flush=True)
    time.sleep(60)
    """


def torch_command(folder: Path, program: str) -> list[str]:
    """Write a program of torch, and return the command that runs it on two ranks of our own under the guard."""
    (folder / "train.py").write_text(textwrap.dedent(program))
    return [sys.executable, "-m", "paceline", "run", "-n", "2", "train.py"]


def command(folder: Path, program: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    (folder / "train.py").write_text(textwrap.dedent(program))
    launch = find_mpiexec().command(2, clean_up=True)
    return [
        sys.executable, "-m", "paceline", "run", *options, "--", *launch, sys.executable, "train.py", *arguments
    ]  # fmt: skip


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("what", ["text", "head"])
def test_a_damaged_record_is_told_once_and_the_exit_code_is_kept(tmp_path: Path, what: str, code: int) -> None:
    done = subprocess.run(
        command(tmp_path, DAMAGED, what, str(code), "0.3", options=("--out", "kept")), cwd=tmp_path,
        capture_output=True, text=True, timeout=_DEADLINE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (code, "fine\n" * 2), done.stderr
    assert "Traceback" not in done.stderr
    assert "out of line" not in done.stderr
    assert done.stderr.count("the guard itself failed") == 1


def test_a_fault_is_told_the_moment_it_happens(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(tmp_path, DAMAGED, "text", "0", "30"), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("paceline: the guard itself failed (ValueError: ")
        assert "its calls are not judged" in line
        assert process.poll() is None
    finally:
        process.terminate()
        process.communicate(timeout=_DEADLINE)


def test_the_time_limit_holds_after_a_fault(tmp_path: Path) -> None:
    began = time.monotonic()
    done = subprocess.run(
        command(tmp_path, DAMAGED, "text", "0", "0", "late", options=("--timeout", "2")), cwd=tmp_path,
        capture_output=True, text=True, timeout=_DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 90, done.stderr
    assert time.monotonic() - began < 30
    assert "before the limit of 2 s" in done.stderr
    assert "paceline: rank 1 has been inside a call for 2 s, longer than the limit of 2 s" in done.stderr


def test_a_finding_keeps_its_code_when_the_reader_has_left(tmp_path: Path) -> None:
    job = " ".join(torch_command(tmp_path, LOUD))
    done = subprocess.run(
        ["bash", "-c", f"({job}; echo $? >code) 2>&1 | head -5"], cwd=tmp_path, stdout=subprocess.DEVNULL,
        timeout=_DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    deadline = time.monotonic() + _DEADLINE
    while not (tmp_path / "code").exists() or not (tmp_path / "code").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert int((tmp_path / "code").read_text()) == 90


@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&1 1>/dev/full"])
def test_a_finding_keeps_its_code_when_it_cannot_be_written(tmp_path: Path, stream: str) -> None:
    quiet = LOUD.replace("range(5000)", "range(0)")
    job = " ".join(torch_command(tmp_path, quiet))
    done = subprocess.run(["bash", "-c", f"{job} {stream}"], cwd=tmp_path, timeout=_DEADLINE, check=False)
    assert done.returncode == 90


def test_a_broken_contract_keeps_its_code_when_the_reader_has_left(tmp_path: Path) -> None:
    (tmp_path / "loaders.py").write_text("def make(rank, world_size):\n    return [[1]] * (1 + rank)\n")
    check = f"{sys.executable} -m paceline check loaders:make --ranks 2"
    done = subprocess.run(
        ["bash", "-c", f"({check}; echo $? >code) | true"], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        timeout=_DEADLINE, check=False,
    )  # fmt: skip
    deadline = time.monotonic() + _DEADLINE
    while not (tmp_path / "code").exists() or not (tmp_path / "code").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert int((tmp_path / "code").read_text()) == 90, done.stderr
    assert "BrokenPipe" not in done.stderr


def test_a_launcher_that_was_killed_is_not_a_finding_about_ranks(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(tmp_path, COMPUTES), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (launcher,) = psutil.Process(process.pid).children()
        launcher.send_signal(signal.SIGKILL)
        _, text = process.communicate(timeout=_DEADLINE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + signal.SIGKILL, text
    assert "paceline: the launcher was killed (by SIGKILL) before any rank had failed" in text
    assert "rank 0" not in text


def test_ends_are_noted_in_their_order_even_if_nobody_looked_meanwhile(tmp_path: Path) -> None:
    processes = [subprocess.Popen(["sleep", "60"]) for _ in range(6)]
    rings = LocalRings(tmp_path)
    try:
        handles = [ProcessHandle(process.pid, start_time(process.pid)) for process in processes]
        for handle in handles:
            rings.await_end(handle)
        order = [3, 0, 5, 1, 4, 2]
        for number in order:
            processes[number].kill()
            os.waitid(os.P_PID, processes[number].pid, os.WEXITED | os.WNOWAIT)
        assert handles[0].has_ended()  # asking for one of them notes all, in their order
        rings.wait(0.01)
        assert sorted(range(6), key=lambda number: handles[number].ended_ns) == order
        assert [handle.status for handle in handles] == [signal.SIGKILL] * 6
        for handle in handles:
            handle.close()
    finally:
        rings.close()
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.parametrize(
    ("kind", "message", "timed_out", "by_peer"),
    [
        ("RuntimeError", "[unbound_buffer.cc:81] Timed out waiting 2000ms for recv operation to complete", True, False),
        (
            "DistBackendError",
            "Watchdog caught collective operation: it ran for 60 s before timing out",
            True,
            False,
        ),
        ("DistStoreError", "wait timeout after 300000ms, keys: /default_pg/0//cpu//0/5", True, False),
        ("TimeoutError", "", True, False),
        ("RuntimeError", "[pair.cc:547] Connection closed by peer [127.0.0.1]:11632", False, True),
        ("ValueError", "timeout must be a timedelta", False, False),
        ("RuntimeError", "runtime output is wrong", False, False),
    ],
)
def test_a_time_limit_that_ran_out_is_told_from_a_peer_that_has_gone(
    tmp_path: Path, kind: str, message: str, timed_out: bool, by_peer: bool
) -> None:
    recorder = Recorder(tmp_path, "world.0.0", rank=0, world_size=2)
    recorder.ring.write_text({"raised": {"type": kind, "message": message, "errno": None, "frames": [], "call": None}})
    recorder.end(1)
    reader = RingReader(tmp_path / "ring.world.0.0")
    reader.read_texts()
    process = ProcessHandle(os.getpid(), start_time(os.getpid()))
    end = rank_end(WatchedRank(reader, process, 0))
    reader.close()
    process.close()
    assert end is not None
    assert (end.timed_out, end.by_peer) == (timed_out, by_peer)


@pytest.mark.parametrize("of_another", [True, False])
def test_an_error_that_the_loader_brings_to_all_ranks_is_the_fault_of_one(tmp_path: Path, of_another: bool) -> None:
    error = LoadError(Problem(text="EOFError", rank=1, epoch=0, step=2), is_of_another_rank=of_another)
    recorder = Recorder(tmp_path, "world.0.0", rank=0, world_size=2)
    recorder.ring.write_text({"raised": describe_error(error)})
    recorder.end(1)
    reader = RingReader(tmp_path / "ring.world.0.0")
    reader.read_texts()
    process = ProcessHandle(os.getpid(), start_time(os.getpid()))
    end = rank_end(WatchedRank(reader, process, 0))
    reader.close()
    process.close()
    assert end is not None
    assert end.by_peer == of_another
