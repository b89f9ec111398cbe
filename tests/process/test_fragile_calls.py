"""A process is left alone where a signal would make a call of compiled code return early, and only there."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paceline.process.fragile_calls import _is_of_others, signal_would_harm
from paceline.process.procfs import read_stat
from paceline.process.stacks import OF_JUDGE, ask_for_stacks

_DEADLINE = 30.0
_ANSWERS = """
    import ctypes, select, sys, time
    from paceline.process.stacks import OF_JUDGE, StackAnswers
    libc = ctypes.CDLL(None, use_errno=True)
    answers = StackAnswers(open(sys.argv[1], "w"), OF_JUDGE)
    print("ready", flush=True)
    """
# what waits: in code of others, in that of Python itself, and in a call that the kernel makes again
_OF_OTHERS = ["libc.poll(None, 0, 60000)", "libc.usleep(60000000)", "libc.select(0, None, None, None, None)"]
_OF_PYTHON = ["time.sleep(60)", "select.poll().poll(60000)", "select.select([], [], [], 60)", "sys.stdin.read()"]
_MADE_AGAIN = ["libc.getchar()"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    started = []

    def start_one(body: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_ANSWERS) + body, str(tmp_path / "stack")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        _wait_until_it_sleeps(process.pid)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def _wait_until_it_sleeps(pid: int) -> None:
    end, calm = time.monotonic() + _DEADLINE, 0
    while calm < 5:  # several times in a row: it may wait for something else before
        assert time.monotonic() < end
        calm = calm + 1 if read_stat(pid).state == "S" else 0
        time.sleep(0.02)


@pytest.mark.parametrize("body", _OF_OTHERS)
def test_compiled_code_that_would_see_its_call_return_early_is_not_asked(
    body: str, start: Callable[[str], subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = start(f"print('returned', {body}, flush=True)")
    assert signal_would_harm(process.pid)
    assert ask_for_stacks({process.pid: tmp_path / "stack"}, OF_JUDGE) == {process.pid: ""}
    process.kill()
    assert process.communicate()[0] == ""


@pytest.mark.parametrize("body", [*_OF_PYTHON, *_MADE_AGAIN])
def test_all_others_are_asked(body: str, start: Callable[[str], subprocess.Popen[str]], tmp_path: Path) -> None:
    process = start(f"print('returned', {body}, flush=True)")
    assert not signal_would_harm(process.pid)
    assert "File" in ask_for_stacks({process.pid: tmp_path / "stack"}, OF_JUDGE)[process.pid]
    process.kill()
    assert process.communicate()[0] == ""


@pytest.mark.parametrize(
    ("callers", "is_of_others"),
    [
        ([(0, "libffi.so.8"), (400, "libpython3.11.so.1.0")], True),
        ([(40, "libpython3.11.so.1.0"), (64, "libtorch_cpu.so")], False),
        ([(40, "python3.11"), (64, "libtorch_cpu.so")], False),
        ([(0, "lib-dynload/select.cpython-311-x86_64-linux-gnu.so")], False),
        ([(16, "libtorch_cpu.so"), (40, "libpython3.11.so.1.0")], False),  # left there by an earlier call
        ([], False),
    ],
)
def test_in_doubt_python_itself_has_made_the_call(callers: list[tuple[int, str]], is_of_others: bool) -> None:
    assert _is_of_others([(offset, Path("/env/lib", name)) for offset, name in callers]) == is_of_others


def test_of_a_process_that_has_ended_nothing_is_known() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert not signal_would_harm(process.pid)
