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
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.guard.rank.torch.torch_groups import watched_destroy
from paceline.process.stacks import OF_JUDGE, ask_for_stacks

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


OWN_SIGNALS = """
    import os, signal, sys, time
    from pathlib import Path
    from paceline.guard.rank.process_end import watch_process
    from paceline.guard.rank.watched_process import SESSION
    from paceline.process.stacks import OF_JUDGE
    hits = []
    def handle(number, frame): hits.append(number)
    def join():
        watch_process()
        SESSION.open(Path(sys.argv[1]))
        assert SESSION.join("torch", rank=0, world_size=1, job="one") is not None
    {body}
    os.write(1, b"ready\\n")
    sys.stdin.read()
    print(len(hits), flush=True)
    """


def asked(body: str, folder: Path) -> tuple[str, str, int]:
    """Start a rank and ask it where it is; return what it answered, what it printed, and its exit code."""
    program = textwrap.dedent(OWN_SIGNALS).replace("{body}", body)
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        answer = ask_for_stacks({process.pid: folder / f"stack.{process.pid}"}, OF_JUDGE, seconds=0.2)[process.pid]
        out, _ = process.communicate(timeout=_DEADLINE)
        return answer, out, process.returncode
    finally:
        process.kill()
        process.wait()


def test_a_rank_that_leaves_its_signals_alone_answers(tmp_path: Path) -> None:
    answer, out, code = asked("join()", tmp_path)
    assert "in <module>" in answer
    assert (out, code) == ("0\n", 0)


@pytest.mark.parametrize("number", OF_JUDGE)
@pytest.mark.parametrize(
    "body",
    [
        "signal.signal({number}, handle); join()",
        "join(); assert signal.signal({number}, handle) is signal.SIG_DFL",
        "join(); signal.pthread_sigmask(signal.SIG_BLOCK, OF_JUDGE)",
    ],
)
def test_a_signal_that_the_script_uses_itself_is_left_to_it(body: str, number: int, tmp_path: Path) -> None:
    own = body.format(number=number) + f"; os.kill(os.getpid(), {number}) if 'handle' in {body!r} else None"
    answer, out, code = asked(own, tmp_path)
    assert (answer, out, code) == ("", f"{int('handle' in body)}\n", 0)


def test_a_rank_that_has_become_another_program_is_not_asked(tmp_path: Path) -> None:
    handles = (
        f"import signal, sys; signal.signal({OF_JUDGE.gentle}, lambda *_: print('asked')); print('ready', flush=True)"
    )
    programs = (("sh", "echo ready; read line"), (sys.executable, f"{handles}; sys.stdin.read()"))
    for number, (program, script) in enumerate(programs):
        folder = tmp_path / str(number)
        folder.mkdir()
        body = f"join(); os.execvp({program!r}, ['other', '-c', {script!r}])"
        answer, out, code = asked(body, folder)
        assert (answer, out, code in (0, 1)) == ("", "", True)


def test_a_package_that_cannot_be_watched_is_told_and_left_alone(tmp_path: Path) -> None:
    """A version of mpi4py that nobody has seen: the script runs, and the judge hears why it is not watched."""
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '99.0'\n")
    (package / "MPI.py").write_text("Comm = None\n")
    script = f"""
        import sys
        from pathlib import Path
        from paceline.guard.rank.hooks import arrive
        sys.path.insert(0, {str(tmp_path)!r})
        arrive(Path(sys.argv[1]))
        from mpi4py import MPI
        print("runs", MPI.Comm)
        """
    records = tmp_path / "records"
    records.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(records)],
        capture_output=True, text=True, timeout=_DEADLINE, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "runs None\n"), done.stderr
    (problem,) = records.glob("problem.*")
    assert problem.read_text().startswith("mpi4py.MPI (99.0) cannot be watched: ")


# A first attempt to make the group has failed, so the world is joined twice before it is left.
JOINS_AGAIN = """
    import os, sys
    from pathlib import Path
    import torch.distributed.distributed_c10d as module
    from paceline.guard.rank.torch.torch_module import TorchWatch
    from paceline.guard.rank.watched_process import SESSION
    SESSION.open(Path(sys.argv[1]))
    watch, seen = TorchWatch(module), []
    def names():
        return len([name for name in os.listdir(sys.argv[1]) if name.startswith("ring.")])
    for _ in range(2):
        watch.join(0, 1, "job")
        seen.append((names(), watch.meeting(0, 1).identity))
    watch.leave(None)
    watch.join(0, 1, "job")
    seen.append((names(), watch.meeting(0, 1).identity))
    print([number for number, _ in seen], seen[0][1] == seen[1][1], seen[1][1] == seen[2][1])
    """


def test_an_attempt_after_one_that_failed_meets_the_others_in_the_same_world(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-c", textwrap.dedent(JOINS_AGAIN), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_DEADLINE, check=False)
    assert done.stdout == "[1, 1, 2] True False\n", done.stderr


@pytest.mark.parametrize("is_initialized", [True, False])
def test_a_group_that_was_never_made_is_not_left(is_initialized: bool) -> None:
    """Otherwise the next world would have another number on this rank than on the others."""
    left: list[object] = []
    module = SimpleNamespace(is_initialized=lambda: is_initialized, GroupMember=SimpleNamespace(WORLD="world"))
    watch: Any = SimpleNamespace(module=module, leave=left.append)
    destroy = watched_destroy(watch, lambda group: group)
    assert [destroy(), destroy("world"), destroy("other")] == [None, "world", "other"]
    assert left == ([None, None, "other"] if is_initialized else [])
