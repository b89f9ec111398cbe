"""The compiled forms of mpi4py's functions record, compare and raise as those in Python do, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.guard.compiled_call_programs import AS_FUNCTIONS, COLLECTIVES, DIFFERENCES, MESSAGES, POSTED
from tests.guard.test_compiled_recorder import shown

from paceline.guard.rank.compiled_recorder import IN_PYTHON
from paceline.guard.shared_memory import layout

# One process is taken for rank 0 of two: so there are boards, and another member that can be there before it.
BEGIN = """
    import copy, inspect, json, os, pickle, sys, threading, weakref
    from pathlib import Path
    from paceline.guard.rank.hooks import arrive

    folder = Path(os.environ["RECORDS"])
    arrive(folder)
    import numpy as np
    from mpi4py import MPI
    from paceline.guard.rank.mpi import mpi_hooks
    from paceline.guard.rank.call_recorder import Recorder
    from paceline.guard.rank.watched_process import SESSION
    from paceline.guard.shared_memory.operations import BY_NAME

    said = []

    def say(*values):
        said.append(list(map(str, values)))

    comm = MPI.COMM_WORLD
    recorder = SESSION.recorder
    two = recorder.communicator("mpi-two", "two", range(2), 0)
    real_stop = recorder.stop

    def stop(*told):
        say("stop", *told)
        real_stop(*told)

    recorder.stop = recorder.messages._stop = stop

    def attempt(call, *args, **named):
        try:
            value = call(*args, **named)
            say("returned", value if isinstance(value, (int, float, str)) else type(value))
        except BaseException as error:
            say(type(error).__name__, getattr(error, "_paceline_call", None))
    """
END = """
    print(json.dumps(said))
    """
FOLLOW = """
    from paceline.guard.rank.mpi.mpi_module import MpiWatch
    import gc
    (watch,) = [found for found in gc.get_objects() if isinstance(found, MpiWatch)]
    watch.communicators[watch.handle_of(comm)] = two
    """


A_MILLION = """
    import resource
    one, other = np.ones(1), np.empty(1)

    def make_calls(num):
        for number in range(num):
            comm.Barrier()
            comm.Allreduce(one, other)
            comm.bcast(None, root=0)
            started = comm.Irecv(other, tag=number % 30_000)
            comm.Send(one, dest=0, tag=number % 30_000)
            started.Wait()
            started = comm.Isend(one, 0, 5)
            comm.Recv(other, MPI.ANY_SOURCE, 5)
            MPI.Request.Waitall([started])
            if number % 1000 == 0:
                attempt(comm.Bcast, one, root=7)
                attempt(comm.Bcast, one, wrong=7)

    make_calls(5000)
    said.clear()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    make_calls(120_000)
    said[:] = [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before]
    """


def run(folder: Path, name: str, program: str, in_python: str) -> tuple[Any, dict[str, bytes]]:
    """Run a program on a communicator that is taken for one of two ranks."""
    return run_script(folder, name, (BEGIN, FOLLOW, program, END), in_python)


def run_script(folder: Path, name: str, parts: tuple[str, ...], in_python: str) -> tuple[Any, dict[str, bytes]]:
    """Run a script; return what it said, and the files that it has left, without what differs from run to run."""
    script, records = folder / "script.py", folder / "records"  # the same for both: jobs are named by it
    records.mkdir()
    script.write_text("".join(map(textwrap.dedent, parts)))
    environment = {**os.environ, IN_PYTHON: in_python, "RECORDS": str(records), "SLURM_JOB_ID": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, cwd=folder, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    left = {}
    for path in sorted(records.iterdir()):
        if path.name.startswith("ring."):
            data = bytearray(shown(path))
            words = memoryview(data).cast("Q")
            words[layout.PID] = words[layout.START_TIME] = 0
            for slot in range(layout.MAX_THREADS):  # the threads' own numbers
                place = layout.THREADS_AT + slot * layout.THREAD_WORDS + 1
                words[place] = min(words[place], 1)
            left[path.name] = bytes(data)
        elif not path.name.startswith(("stack.", "script")):
            left[path.name] = path.read_bytes()
    records.rename(folder / name)
    return json.loads(done.stdout.splitlines()[-1]), left


@pytest.mark.timeout(600)
@pytest.mark.parametrize("program", [COLLECTIVES, MESSAGES, POSTED, DIFFERENCES, AS_FUNCTIONS])
def test_compiled_calls_leave_the_same_bytes_and_raise_the_same(tmp_path: Path, program: str) -> None:
    (said, left), (said_in_python, left_in_python) = (
        run(tmp_path, name, program, in_python) for name, in_python in (("compiled", ""), ("python", "1"))
    )
    assert said == said_in_python
    assert left.keys() == left_in_python.keys()
    assert any(name.startswith("ring.") for name in left)
    for name in left:
        assert left[name] == left_in_python[name], name


@pytest.mark.timeout(300)
def test_a_million_compiled_calls_leave_the_memory_as_it_was(tmp_path: Path) -> None:
    (grown,), _ = run(tmp_path, "compiled", A_MILLION, "")
    assert grown < 1024  # KiB
