"""A process that is asked where it is answers, in Python and in compiled code, and late questions do not hurt it."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paceline.process.stacks import OF_JUDGE, OF_STARTER, StackSignals, ask_for_stacks, parse_stacks

_DEADLINE = 60.0

# what it does until a line comes; in the compiled one the system's read takes it, and starts again after a signal
COMPUTE = "while not select.select([sys.stdin], [], [], 0)[0]: pass"
COMPILED = "ctypes.CDLL(None).read(0, ctypes.create_string_buffer(1), 1)"
PROGRAM = """
    import ctypes, select, sys, threading
    from paceline.process.stacks import OF_JUDGE, OF_STARTER, StackAnswers
    answers = [StackAnswers(open(sys.argv[1], "w"), OF_STARTER), StackAnswers(open(sys.argv[2], "w"), OF_JUDGE, all_threads=True)]
    threading.Thread(target=threading.Event().wait, daemon=True, name="other").start()
    def work():
        print("ready", flush=True)
        {work}
    work()
    for each in answers:
        each.stop()
    print("stopped", flush=True)
    ctypes.pythonapi.Py_AtExit(ctypes.CDLL(None).pause)  # as one whose libraries take long to be unloaded
    """  # noqa: E501


@contextmanager
def running(work: str, *files: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM.format(work=work)), *map(str, files)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def has_handler(pid: int, number: int) -> bool:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigCgt"], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("work", [COMPUTE, COMPILED])
def test_a_process_answers_each_that_asks_in_a_file_of_its_own(work: str, tmp_path: Path) -> None:
    files = {OF_STARTER: tmp_path / "of starter", OF_JUDGE: tmp_path / "of judge"}
    with running(work, *files.values()) as process:
        for signals, file in files.items():
            others = {path: path.read_bytes() for path in files.values() if path != file}
            for _ in range(2):  # what it has answered before is not given again
                stacks = parse_stacks(ask_for_stacks({process.pid: file}, signals)[process.pid])
                assert [frame.function for frame in stacks[-1]] == ["work", "<module>"]
                assert len(stacks) == (2 if signals is OF_JUDGE else 1), "one of them wants all threads"
            assert others == {path: path.read_bytes() for path in others}


def test_a_process_in_python_is_never_asked_urgently(tmp_path: Path) -> None:
    files = tmp_path / "of starter", tmp_path / "of judge"
    with running(COMPUTE, *files) as process:
        no_more = StackSignals(OF_STARTER.gentle, signal.SIGKILL)
        assert "in work" in ask_for_stacks({process.pid: files[0]}, no_more, seconds=_DEADLINE)[process.pid]
        assert process.poll() is None


def test_a_question_that_comes_after_python_has_ended_does_not_hurt(tmp_path: Path) -> None:
    files = tmp_path / "of starter", tmp_path / "of judge"
    with running(COMPUTE, *files) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"stopped\n"
        end = time.monotonic() + _DEADLINE
        while any(has_handler(process.pid, number) for number in (signal.SIGINT, *OF_STARTER, *OF_JUDGE)):
            assert time.monotonic() < end
            for signals in (OF_STARTER, OF_JUDGE):  # not the urgent ones: Python still runs, and might crash
                process.send_signal(signals.gentle)
        for number in (*OF_STARTER, *OF_JUDGE):
            process.send_signal(number)
        process.send_signal(signal.SIGTERM)  # it ends by this one, which comes after them
        assert process.wait(_DEADLINE) == -signal.SIGTERM


def test_who_cannot_answer_gives_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    (tmp_path / "stack").touch()
    assert ask_for_stacks({process.pid: tmp_path / "stack"}, OF_JUDGE, seconds=0.01) == {process.pid: ""}
    assert ask_for_stacks({process.pid: tmp_path / "none"}, OF_JUDGE, seconds=0.01) == {process.pid: ""}


def test_stacks_are_read_in_order_and_one_that_is_cut_off_as_far_as_it_goes() -> None:
    text = textwrap.dedent(
        """\
        Thread 0x1 (most recent call first):
          File "/a b/c.py", line 3 in f
          ...
        Current thread 0x2 (most recent call first):
          File "<frozen importlib._bootstrap>", line ??? in _find_and_load
          File "/a/d.py", line 12 in <module>
        Current thread 0x2 (most recent call first):
          File "/a/d.py", line 1"""
    )
    assert [[(frame.file, frame.line, frame.function) for frame in stack] for stack in parse_stacks(text)] == [
        [("/a b/c.py", "3", "f")],
        [("<frozen importlib._bootstrap>", "???", "_find_and_load"), ("/a/d.py", "12", "<module>")],
        [],
    ]
    assert parse_stacks("") == []
