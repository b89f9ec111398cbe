"""What py-spy and the kernel tell of a process is seen, and nobody waits for a slow answer."""

from __future__ import annotations

import mmap
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.guard.observe import stack_dumps
from paceline.guard.observe.message_traffic import traffic_trace
from paceline.guard.observe.outside_help import other_mpi_processes, uses_mpi
from paceline.guard.observe.stack_dumps import StackDump, StackDumps
from paceline.process.native_stacks import SpyError
from paceline.process.procfs import mapped_files, read_stat, thread_activities

# py-spy as a process


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "import time; print(flush=True); time.sleep(100)"]) as process:
        yield process.pid
        process.kill()


def program(folder: Path, text: str) -> str:
    path = folder / "spy"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def answer_of(dump: StackDump) -> object:
    end = time.monotonic() + 20
    while (answer := dump.answer()) is None:
        assert time.monotonic() < end
        time.sleep(0.01)
    return answer


def test_nobody_waits_for_a_slow_py_spy(tmp_path: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_dumps, "_SECONDS", 0.5)
    began = time.monotonic()
    dump = StackDump(program(tmp_path, "exec sleep 100"), sleeper)
    assert dump.answer() is None
    assert time.monotonic() - began < 0.5
    answer = answer_of(dump)
    assert isinstance(answer, SpyError)
    assert "had no answer" in str(answer)


def test_a_process_that_a_slow_py_spy_has_stopped_goes_on(
    tmp_path: Path, sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_dumps, "_SECONDS", 0.5)
    slow = program(tmp_path, f"kill -STOP {sleeper}; exec sleep 100")
    assert isinstance(answer_of(StackDump(slow, sleeper)), SpyError)
    assert read_stat(sleeper).state != "T"
    os.kill(sleeper, signal.SIGSTOP)  # by somebody else
    while read_stat(sleeper).state != "T":
        time.sleep(0.01)
    assert isinstance(answer_of(StackDump(program(tmp_path, "exec sleep 100"), sleeper)), SpyError)
    assert read_stat(sleeper).state == "T"


def test_dumps_that_are_abandoned_end_by_themselves(tmp_path: Path, sleeper: int) -> None:
    dumps = StackDumps(program(tmp_path, f"sleep 0.3; touch {tmp_path}/ended.$$"), range(sleeper, sleeper + 7))
    dumps.poll()
    dumps.abandon()
    end = time.monotonic() + 20
    while not dumps.poll():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert len(list(tmp_path.glob("ended.*"))) == len(dumps.answers) == 4


def test_a_kernel_that_forbids_it_is_told(tmp_path: Path, sleeper: int) -> None:
    answer = answer_of(StackDump(program(tmp_path, "echo 'Error: Operation not permitted' >&2; exit 1"), sleeper))
    assert isinstance(answer, SpyError)
    assert "py-spy says" not in str(answer)


def test_a_few_are_asked_at_a_time_and_all_answer(tmp_path: Path, sleeper: int) -> None:
    dumps = StackDumps(program(tmp_path, "echo '[]'"), range(sleeper, sleeper + 7))
    end = time.monotonic() + 20
    while not dumps.poll():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert len(dumps.answers) == 7
    assert dumps.answers[sleeper] == ()


# what the kernel says


def test_what_a_process_writes_into_shared_memory_is_seen(tmp_path: Path) -> None:
    with mmap.mmap(-1, 1 << 20) as shared:
        shared[5] = 1
        first = traffic_trace(os.getpid(), tmp_path)
        assert first is not None
        assert first.shared_memory is not None
        assert traffic_trace(os.getpid(), tmp_path) == first
        shared[5] = 2
        assert traffic_trace(os.getpid(), tmp_path) != first
        shared[5] = 1
        assert traffic_trace(os.getpid(), tmp_path) == first


def test_what_a_connection_carries_is_seen(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        trace = traffic_trace(os.getpid(), tmp_path)
        assert trace is not None
        assert trace.connections is not None
        assert traffic_trace(os.getpid(), tmp_path) == trace
        client.send(b"x")
        end = time.monotonic() + 20
        while traffic_trace(os.getpid(), tmp_path) == trace:
            assert time.monotonic() < end
            time.sleep(0.01)
    assert traffic_trace(1 << 30, tmp_path) is None


def test_messages_of_other_jobs_are_not_taken_for_those_of_a_rank(tmp_path: Path) -> None:
    talk = textwrap.dedent("""
        import socket, sys
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            other, _ = server.accept()
            for line in sys.stdin:
                client.sendall(b"x" * 1000)
                other.recv(1000)
                print("sent", flush=True)
    """)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
        subprocess.Popen([sys.executable, "-c", talk], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job,
    ):
        assert job.stdin is not None
        assert job.stdout is not None
        before = traffic_trace(os.getpid(), tmp_path)
        job.stdin.write(b"go\n")
        job.stdin.flush()
        assert job.stdout.readline() == b"sent\n"
        assert traffic_trace(os.getpid(), tmp_path) == before
        job.stdin.close()


def test_threads_and_files_of_this_process() -> None:
    assert os.getpid() in thread_activities(os.getpid())
    assert any("libc" in name for name in mapped_files(os.getpid()))
    assert not uses_mpi(1 << 30), "there is no such process"


def test_only_processes_of_the_job_that_use_mpi_could_help(sleeper: int) -> None:
    assert other_mpi_processes({sleeper}) == []
