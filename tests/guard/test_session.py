"""A rank that is asked where it is: it answers, and a question that comes too late does not hurt it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from paceline.process.stacks import OF_JUDGE

_DEADLINE = 60.0

# The process pauses after Python has ended, as one does whose libraries take long to be unloaded.
RANK = """
    import ctypes, select, sys
    from pathlib import Path
    from paceline.guard.rank.process_end import watch_process
    from paceline.guard.rank.watched_process import SESSION
    ctypes.pythonapi.Py_AtExit(ctypes.CDLL(None).pause)
    watch_process()
    SESSION.open(Path(sys.argv[1]))
    assert SESSION.join("torch", rank=0, world_size=1, job="one") is not None
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        pass
    """


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + _DEADLINE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def has_handler(pid: int, number: int) -> bool:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) >> (number - 1) & 1)


def test_a_question_is_answered_and_one_that_comes_late_does_not_end_the_rank(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(RANK), str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        stack = tmp_path / f"stack.{process.pid}"
        for number in OF_JUDGE:
            size = stack.stat().st_size
            os.kill(process.pid, number)
            wait_until(lambda size=size: stack.stat().st_size > size)  # type: ignore[misc]
        process.stdin.close()
        wait_until(
            lambda: not has_handler(process.pid, signal.SIGINT) and not has_handler(process.pid, OF_JUDGE.urgent)
        )
        for number in OF_JUDGE:
            os.kill(process.pid, number)
        os.kill(process.pid, signal.SIGTERM)  # it ends by this one, which comes after them
        assert process.wait(_DEADLINE) == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
