"""Whether a process has begun to exit is seen from outside, in every part of its exit, and not before."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from paceline.doctor import exit_trace
from paceline.doctor.exit_trace import PYTHON_EXIT, exit_calls

_DEADLINE = 30.0
READY = "print('ready', flush=True)"
EXITS = {
    "a handler": f"import atexit, time\n@atexit.register\ndef leave():\n    {READY}\n    time.sleep(1000)",
    "a thread": f"import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n{READY}",
    "a destructor": f"import time\nclass Last:\n    def __del__(self):\n        {READY}\n        time.sleep(1000)\n"
    "last = Last()",
    # called when the interpreter has gone
    "a function of C": "import ctypes\npause = ctypes.cast(ctypes.CDLL(None).pause, ctypes.c_void_p)\n"
    f"ctypes.PyDLL(None).Py_AtExit(pause)\n{READY}",
    "sys.exit": f"import atexit, sys, time\natexit.register(time.sleep, 1000)\n{READY}\nsys.exit(3)",
}


@contextmanager
def running(program: str) -> Iterator[int]:
    """Run a program until it says that it is ready."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.mark.parametrize("way", EXITS)
def test_a_process_that_exits_is_seen(way: str) -> None:
    with running(EXITS[way]) as pid:
        deadline = time.monotonic() + _DEADLINE
        while exit_calls(pid) != (PYTHON_EXIT,):
            assert time.monotonic() < deadline, exit_calls(pid)
            time.sleep(0.05)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only instructions of x86-64 are read")
@pytest.mark.parametrize("way", EXITS)
def test_the_instruction_that_called_is_enough(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a compiler has moved parts of the function elsewhere, no return address lies in it."""
    monkeypatch.setattr(exit_trace._Function, "holds", lambda self, word: False)
    test_a_process_that_exits_is_seen(way)


def test_the_return_address_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "another")
    test_a_process_that_exits_is_seen("a handler")


def test_a_process_that_runs_or_is_not_there_gives_no_sign() -> None:
    deep = "def call(n):\n    return call(n - 1) if n else sorted([1, 2], key=stay)\n"
    with running(f"import time\ndef stay(_):\n    {READY}\n    time.sleep(1000)\n{deep}call(500)") as pid:
        assert exit_calls(pid) == ()
    assert exit_calls(pid) == ()
    with subprocess.Popen(["sleep", "1000"]) as process:  # no Python
        assert exit_calls(process.pid) == ()
        process.kill()
    assert exit_calls(os.getpid()) == ()
