"""The pipes of ranks: closed first when a rank ends, and only then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.guard.observe import kernel_view
from paceline.guard.observe.kernel_view import ProcessEnds, ProcessHandle
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.shared_memory.lifeline import hold_lifeline, open_lifeline
from paceline.process.procfs import read_stat, start_time

_DEADLINE = 60.0
_HOLD = """
import os, sys
from pathlib import Path
from paceline.guard.shared_memory.lifeline import hold_lifeline
line = hold_lifeline(Path(sys.argv[1]))
"""
_RANK = """
import os
def held():
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum("lifeline." in os.readlink(link) for link in links if os.path.islink(link))
print(f"rank:{held()}\\n", end="", flush=True)
child = os.fork()
if not child:
    print(f"copy:{held()}\\n", end="", flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
_WAIT = "print(flush=True); sys.stdin.read()"


def _start(folder: Path, then: str = _WAIT) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD + then, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _await(folder: Path, ends: ProcessEnds, process: subprocess.Popen[bytes]) -> ProcessHandle:
    handle = ProcessHandle(process.pid, start_time(process.pid))
    line = open_lifeline(folder, process.pid)
    assert line is not None
    ends.register(handle, line)
    return handle


def _until(ends: ProcessEnds, is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + _DEADLINE
    while not is_so():
        assert time.monotonic() < deadline
        ends.note(0.05)


def _close(ends: ProcessEnds, *started: tuple[subprocess.Popen[bytes], ProcessHandle]) -> None:
    ends.close()
    for process, handle in started:
        handle.close()
        process.kill()
        process.communicate()


def test_files_are_closed_in_the_order_in_which_processes_were_killed(tmp_path: Path) -> None:
    ends, processes = ProcessEnds(), [_start(tmp_path) for _ in range(3)]
    handles = [_await(tmp_path, ends, process) for process in processes]
    for number in (2, 0, 1):
        processes[number].kill()
        # not until /proc lists no files: the kernel takes them from a process first, and closes them only then
        os.waitid(os.P_PID, processes[number].pid, os.WEXITED | os.WNOWAIT)
    _until(ends, lambda: all(handle.ended_ns for handle in handles))
    assert sorted(range(3), key=lambda number: handles[number].closed_ns) == [2, 0, 1]
    assert all(handle.closed_ns <= handle.ended_ns for handle in handles)
    assert all(handle.alive_ns <= handle.closed_ns for handle in handles)
    _close(ends, *zip(processes, handles, strict=True))


def test_a_process_that_ends_while_another_goes_on_has_not_ended_with_others(tmp_path: Path) -> None:
    ends, processes = ProcessEnds(), [_start(tmp_path) for _ in range(3)]
    handles = [_await(tmp_path, ends, process) for process in processes]
    processes[1].kill()
    _until(ends, lambda: handles[1].ended_ns)
    assert not handles[1].with_others
    _stop(processes[0])
    processes[0].send_signal(signal.SIGTERM)  # it comes to that only when it goes on
    processes[2].kill()
    _until(ends, lambda: handles[2].ended_ns)
    assert handles[2].with_others
    _close(ends, *zip(processes, handles, strict=True))


def test_processes_that_are_killed_at_once_have_ended_with_others(tmp_path: Path) -> None:
    ends, processes = ProcessEnds(), [_start(tmp_path) for _ in range(3)]
    handles = [_await(tmp_path, ends, process) for process in processes]
    for process in processes:
        process.kill()
    _until(ends, lambda: all(handle.ended_ns for handle in handles))
    assert min(handles, key=lambda handle: handle.closed_ns).with_others
    _close(ends, *zip(processes, handles, strict=True))


def test_the_end_of_a_single_process_is_not_that_of_all(tmp_path: Path) -> None:
    ends, process = ProcessEnds(), _start(tmp_path)
    handles = [_await(tmp_path, ends, process), _await(tmp_path, ends, process)]  # when it started, and when it joined
    process.kill()
    _until(ends, lambda: all(handle.ended_ns for handle in handles))
    assert not any(handle.with_others for handle in handles)
    handles[1].close()
    _close(ends, (process, handles[0]))


def test_one_that_has_got_its_signal_and_not_come_to_it_is_waited_for_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_view, "_CLOSING_SECONDS", _DEADLINE)
    ends, processes = ProcessEnds(), [_start(tmp_path) for _ in range(2)]
    handles = [_await(tmp_path, ends, process) for process in processes]
    _stop(processes[0])
    processes[0].send_signal(signal.SIGTERM)
    going_on = threading.Timer(0.2, processes[0].send_signal, [signal.SIGCONT])
    going_on.start()
    ends.note_coming()
    assert [bool(handle.ended_ns) for handle in handles] == [True, False]
    _close(ends, *zip(processes, handles, strict=True))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + _DEADLINE
    while read_stat(process.pid).state != "T":
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_process_that_becomes_another_program_has_not_ended(tmp_path: Path) -> None:
    ends = ProcessEnds()
    process = _start(tmp_path, "print(flush=True); sys.stdin.readline(); os.execvp('sleep', ['sleep', '1000'])")
    handle = _await(tmp_path, ends, process)
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()
    _until(ends, lambda: not ends._lifelines)
    assert (handle.closed_ns, handle.ended_ns) == (0, 0)
    process.kill()
    _until(ends, lambda: handle.ended_ns)
    assert not handle.closed_ns
    _close(ends, (process, handle))


def test_a_copy_of_a_process_lets_go_of_its_pipe_and_of_nothing_else(tmp_path: Path) -> None:
    line = hold_lifeline(tmp_path)
    assert line is not None
    number, reading = line._descriptor, open_lifeline(tmp_path, os.getpid())
    assert number > 255
    assert reading is not None
    os.close(number)
    with open(tmp_path / "other", "wb") as other:
        os.dup2(other.fileno(), number)  # the script uses its number
        line.let_go()
        os.fstat(number)
        os.close(number)
    again = hold_lifeline(tmp_path)
    assert again is not None
    again.let_go()
    os.close(reading)


def test_what_is_not_such_a_pipe_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "lifeline.1").write_text("")
    assert open_lifeline(tmp_path, 1) is None
    assert open_lifeline(tmp_path, 2) is None
    assert hold_lifeline(tmp_path / "missing") is None


def test_rings_see_when_a_rank_closes_its_files(tmp_path: Path) -> None:
    rings, process = LocalRings(tmp_path), _start(tmp_path)
    handle = ProcessHandle(process.pid, start_time(process.pid))
    rings.await_end(handle)
    process.kill()
    deadline = time.monotonic() + _DEADLINE
    while not handle.ended_ns:
        assert time.monotonic() < deadline
        rings.wait(0.05)
    assert 0 < handle.closed_ns <= handle.ended_ns
    rings.close()
    handle.close()
    process.communicate()


def test_ranks_hold_their_pipe_and_copies_of_them_do_not(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(_RANK)
    command = [sys.executable, "-m", "paceline", "run", "-n", "2", "--carrier", "torch", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=_DEADLINE, check=False)
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["copy:0", "copy:0", "rank:1", "rank:1"]), done.stderr
