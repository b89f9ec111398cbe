"""How a rank ended is told from what it said itself, and from what the kernel says where it said nothing."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.rank_ends import rank_end
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.snapshot import End, EndKind
from paceline.process.procfs import start_time

_DEADLINE = 60.0
_NO_KILLS_YET = 1 << 40  # more kills for memory than the kernel has counted: none of them is of this job


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path, "job.0.0", rank=0, world_size=2)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until its input ends, and then exits with code 3."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit(3)"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


@pytest.fixture
def rank(recorder: Recorder, process: subprocess.Popen[bytes], tmp_path: Path) -> Iterator[WatchedRank]:
    watched = WatchedRank(
        RingReader(tmp_path / "ring.job.0.0"), ProcessHandle(process.pid, start_time(process.pid)), _NO_KILLS_YET
    )
    yield watched
    watched.reader.close()
    watched.process.close()


def end_of(rank: WatchedRank) -> End:
    rank.reader.read_texts()
    end = rank_end(rank)
    assert end is not None
    return end


def wait_for_end(rank: WatchedRank) -> None:
    """Wait without taking the process's exit code, which the kernel keeps for its parent."""
    deadline = time.monotonic() + _DEADLINE
    while not rank.process.has_ended():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def raised(**described: Any) -> dict[str, Any]:
    return {"type": "OSError", "message": "", "errno": None, "frames": [["/a/train.py", 7, "main"]], **described}


def test_a_rank_that_lives_has_no_end(rank: WatchedRank) -> None:
    assert rank_end(rank) is None


def test_the_last_exception_is_told_with_its_line_and_the_call_that_raised_it(
    recorder: Recorder, rank: WatchedRank
) -> None:
    recorder.ring.write_text({"raised": raised(type="ValueError", message="bad\n value", call=4)})
    recorder.end(layout.EXITS)
    end = end_of(rank)
    assert (end.kind, end.detail, end.site, end.cause) == (
        EndKind.RAISED,
        "ValueError: bad value",
        "/a/train.py:7",
        None,
    )
    assert (end.failed_call, end.by_peer) == (4, False)


@pytest.mark.parametrize(
    ("described", "cause", "by_peer"),
    [
        ({"errno": errno.ENOSPC}, "disk-full", False),
        ({"type": "MemoryError"}, "out-of-memory", False),
        ({"errno": errno.ENOMEM}, "out-of-memory", False),
        ({"type": "RuntimeError", "message": "can't allocate memory: you tried to"}, "out-of-memory", False),
        ({"type": "RuntimeError", "message": "CUDA out of memory. Tried to allocate"}, "out-of-memory", False),
        ({"type": "RuntimeError", "message": "Connection closed by peer [127.0.0.1]:5"}, None, True),
    ],
)
def test_exceptions_that_say_why(
    recorder: Recorder, rank: WatchedRank, described: dict[str, Any], cause: str, by_peer: bool
) -> None:
    recorder.ring.write_text({"raised": raised(**described)})
    recorder.end(layout.EXITS)
    end = end_of(rank)
    assert (end.cause, end.by_peer) == (cause, by_peer)


@pytest.mark.parametrize(
    ("message", "may_be_truncated", "shown"),
    [
        ("Message truncated, error stack:\ninternal_Recv_c(93): MPI_Recv_c(buf=0x56)", True, "Message truncated"),
        ("MPI_ERR_TRUNCATE: message truncated", True, "MPI_ERR_TRUNCATE: message truncated"),
        ("See the MPI_ERROR field in MPI_Status", True, "See the MPI_ERROR field in MPI_Status"),
        ("Invalid rank, error stack:\ninternal_Send_c(1)", False, "Invalid rank"),
    ],
)
def test_what_mpi_says_of_a_message_that_has_no_room(
    recorder: Recorder, rank: WatchedRank, message: str, may_be_truncated: bool, shown: str
) -> None:
    recorder.ring.write_text({"raised": raised(type="Exception", message=message)})
    recorder.end(layout.EXITS)
    end = end_of(rank)
    assert (end.may_be_truncated, end.detail) == (may_be_truncated, f"Exception: {shown}")


def test_a_long_message_is_cut(recorder: Recorder, rank: WatchedRank) -> None:
    recorder.ring.write_text({"raised": raised(message="x" * 500)})
    recorder.end(layout.EXITS)
    assert end_of(rank).detail == f"OSError: {'x' * 200}..."


@pytest.mark.parametrize(
    ("text", "how", "kind", "detail"),
    [
        ({"exit": 0, "how": "sys.exit"}, layout.EXITS, EndKind.EXITED, "sys.exit(0)"),
        ({"exit": 2, "how": "os._exit"}, layout.EXITS_AT_ONCE, EndKind.EXITED, "os._exit(2)"),
        ({"abort": 5}, layout.ABORTS, EndKind.ABORTED, "Abort(5)"),
        ({"finished": True}, layout.EXITS, EndKind.EXITED, "came to the end of the script"),
        ({"finished": False}, layout.EXITS, EndKind.EXITED, "SystemExit, with a code that is not known"),
        ({}, layout.EXITS, EndKind.EXITED, "came to the end of the script, or to SystemExit"),
    ],
)
def test_a_rank_that_leaves_says_how(
    recorder: Recorder, rank: WatchedRank, text: dict[str, Any], how: int, kind: EndKind, detail: str
) -> None:
    if text:
        recorder.ring.write_text(text)
    recorder.end(how)
    end = end_of(rank)
    assert (end.kind, end.detail) == (kind, detail)


def test_a_rank_that_caught_its_exit_has_come_to_the_end_of_the_script(recorder: Recorder, rank: WatchedRank) -> None:
    recorder.ring.write_text({"exit": 3, "how": "sys.exit"})
    recorder.ring.write_text({"finished": True})
    recorder.end(layout.EXITS)
    end = end_of(rank)
    assert (end.detail, end.exit_code) == ("came to the end of the script", None)


def test_a_rank_that_was_killed_is_told_by_its_signal(rank: WatchedRank, process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSEGV)
    wait_for_end(rank)
    end = end_of(rank)
    assert (end.kind, end.detail, end.signal) == (EndKind.KILLED, "by SIGSEGV", signal.SIGSEGV)


def test_memory_that_had_grown_is_told_of_a_rank_that_was_killed(
    rank: WatchedRank, process: subprocess.Popen[bytes]
) -> None:
    rank.memory = [(10.0, 200 << 20), (14.0, 900 << 20)]
    process.kill()
    wait_for_end(rank)
    assert end_of(rank).detail == "by SIGKILL; its memory had grown from 200 to 900 MiB in 4 s"


def test_a_kill_of_the_kernel_for_memory_is_evidence(rank: WatchedRank, process: subprocess.Popen[bytes]) -> None:
    rank.kills_before = -2  # so that at least two came since
    process.kill()
    wait_for_end(rank)
    end = end_of(rank)
    assert end.cause == "out-of-memory"
    assert "process(es) for memory since the job began" in end.detail


def test_an_exit_that_python_knows_nothing_of(rank: WatchedRank, process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    wait_for_end(rank)
    end = end_of(rank)
    assert (end.kind, end.exit_code) == (EndKind.EXITED, 3)
    assert end.detail == "exit code 3, not by way of Python"
