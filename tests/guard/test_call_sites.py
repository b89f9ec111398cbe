"""Every kind of watched call hands the recorder the user's own frame: not one of ours, and not one further out.

A frame of ours would be found too, by a search at each call; one further out would name the wrong line. So this fails
if a function comes to stand between the user and the recorder, or leaves, and its depth is not changed with it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from paceline.guard.rank.call_sites import Frame, Sites
from paceline.guard.rank.compiled_recorder import IN_PYTHON

# Notes which frame each kind of call starts from, then follows the calls of `make_calls`, in a process of one rank.
_BEGIN = """
    import contextlib, json, sys
    from pathlib import Path
    from paceline.guard.rank import call_sites
    from paceline.guard.rank.hooks import arrive

    frames = []
    number_of = call_sites.Sites.number

    def number(self, frame):
        frames.append((Path(frame.f_code.co_filename).name, frame.f_lineno))
        return number_of(self, frame)

    call_sites.Sites.number = number
    arrive(Path(sys.argv[1]))
    """
_END = """
    make_calls()
    print(json.dumps(frames))
    """

# A call that makes a handle asks twice: the handle is counted by the line that made it.
MPI_CALLS = """
    import numpy
    from mpi4py import MPI

    def make_calls():
        comm = MPI.COMM_WORLD
        one, other = numpy.zeros(4), numpy.zeros(4)
        comm.Barrier()  # call
        comm.Allreduce(one, other)  # call
        comm.Bcast(one, root=0)  # call
        comm.bcast(1)  # call
        half = comm.Split(0)  # calls: 2
        half.Barrier()  # call
        comm.Create_group(comm.Get_group())  # calls: 3
        started = comm.Iallreduce(one, other)  # call
        started.Wait()  # call
        started = comm.Isend(one, 0, 3)  # call
        comm.Probe(0, 3)  # call
        comm.Recv(other, 0, 3)  # call
        started.wait()  # call
        started = comm.Irecv(other)  # call
        comm.Send(one, 0)  # call
        MPI.Request.Waitall([started])  # call
        started = comm.isend("x", dest=0)  # call
        comm.recv()  # call
        MPI.Request.waitany([started])  # call
        started = comm.irecv(source=0)  # call
        comm.send("x", 0)  # call
        MPI.Request.waitsome([started])  # call
        comm.Sendrecv(one, 0, 0, other, 0, 0)  # call
        comm.Sendrecv_replace(one, 0)  # call
        comm.sendrecv("x", dest=0)  # call
        sending = comm.Send_init(one, 0)  # call
        receiving = comm.Recv_init(other, 0)  # call
        sending.Start()
        receiving.Start()
        sending.Wait()  # call
        receiving.Wait()  # call
        started = comm.Isend(one, 0)  # call
        comm.Mprobe().Recv(other)  # call
        started.Wait()  # call
        half.Disconnect()  # call
        window = MPI.Win.Create(one, comm=comm)  # calls: 2
        window.Fence()  # call
        window.Free()  # call
        file = MPI.File.Open(comm, sys.argv[1] + "/file", MPI.MODE_CREATE | MPI.MODE_WRONLY)  # calls: 2
        file.Sync()  # call
        file.Close()  # call
    """

# Rank and world size come from the address: the guard does not know them before the group is there. A rank may not
# send to itself, or receive, but the call is recorded before torch says so.
TORCH_CALLS = """
    import torch
    import torch.distributed as dist

    def make_calls():
        address = "file://" + sys.argv[1] + "/store?rank=0&world_size=1"
        dist.init_process_group("gloo", init_method=address)
        value = torch.zeros(4)
        dist.barrier()  # call
        dist.all_reduce(value)  # call
        dist.broadcast(value, src=0)  # call
        dist.all_gather_object([None], "x")  # call
        work = dist.all_reduce(value, async_op=True)  # call
        work.wait()  # call
        store = dist.HashStore()
        store.set("key", "value")
        store.get("key")  # call
        store.wait(["key"])  # call
        group = dist.new_group([0])  # calls: 2
        dist.barrier(group=group)  # call
        with contextlib.suppress(ValueError, RuntimeError):
            dist.send(value, 0)  # call
        with contextlib.suppress(ValueError, RuntimeError):
            dist.recv(value, 0)  # call
        with contextlib.suppress(ValueError, RuntimeError):
            dist.isend(value, 0)  # call
        with contextlib.suppress(ValueError, RuntimeError):
            dist.irecv(value, 0)  # call
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # call
        dist.destroy_process_group()
    """


# The compiled recorder asks for the site of a line once, so each line of the scripts makes one call.
in_both_ways = pytest.mark.parametrize("in_python", ["1", ""], ids=["python", "compiled"])


def check_frames(folder: Path, calls: str, in_python: str) -> None:
    """Run the calls and compare the frames that they were recorded from with the marked lines."""
    script = folder / "script.py"
    script.write_text("".join(map(textwrap.dedent, (_BEGIN, calls, _END))))
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], env={**os.environ, IN_PYTHON: in_python}, capture_output=True,
        text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = []
    for line, text in enumerate(script.read_text().splitlines(), start=1):
        marked = re.search(r"# calls?(?:: (\d+))?$", text)
        if marked is not None:
            expected += [["script.py", line]] * int(marked[1] or 1)
    assert json.loads(done.stdout.splitlines()[-1]) == expected


@in_both_ways
def test_calls_of_mpi4py_are_recorded_from_the_users_own_frame(tmp_path: Path, in_python: str) -> None:
    check_frames(tmp_path, MPI_CALLS, in_python)


@in_both_ways
def test_calls_of_torch_are_recorded_from_the_users_own_frame(tmp_path: Path, in_python: str) -> None:
    check_frames(tmp_path, TORCH_CALLS, in_python)


def test_frames_of_python_itself_without_a_file_are_never_where_a_rank_exits() -> None:
    frames = "[('<frozen runpy>', 88, '_run_code')]"
    asked = f"from paceline.guard.rank.call_sites import _user_frames; print(_user_frames({frames}))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# Both ways to the helper of a helper are asked for once.
HELPERS = """
    from mpi4py import MPI

    def reduce():
        MPI.COMM_WORLD.allreduce(1)  # calls: 2

    def compute():
        reduce()

    def train():
        compute()

    def evaluate():
        compute()

    def make_calls():
        for _ in range(3):
            train()
            evaluate()
    """


@in_both_ways
def test_a_helper_of_a_helper_has_a_site_for_each_line_that_uses_it(tmp_path: Path, in_python: str) -> None:
    check_frames(tmp_path, HELPERS, in_python)


def test_a_comprehension_is_not_taken_for_a_function_that_calls_itself() -> None:
    described: list[list[Frame]] = []
    sites = Sites(lambda number, user, library: described.append(user))

    def make_call() -> int:
        return sites.number(sys._getframe())

    def make_calls() -> None:
        [make_call() for _ in range(2)]
        next(make_call() for _ in range(2))

    make_calls()
    for frames in described:
        functions = [function for _, _, function in frames[:2]]
        assert functions == ["make_call", "make_calls"]
    assert len(described) == 2
