"""Every kind of watched call hands the recorder the user's own frame: not one of ours, and not one further out.

A frame of ours would be found too, by a search at each call; one further out would name the wrong line. So this fails
if a function comes to stand between the user and the recorder, or leaves, and its depth is not changed with it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

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
        half = comm.Split(0)  # call
        half.Barrier()  # call
        comm.Create_group(comm.Get_group())  # call
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
        group = dist.new_group([0])  # call
        dist.barrier(group=group)  # call
        for function in (dist.send, dist.recv, dist.isend, dist.irecv):
            with contextlib.suppress(ValueError, RuntimeError):
                function(value, 0)  # calls: 4
        dist.destroy_process_group()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # call
        dist.destroy_process_group()
    """


def check_frames(folder: Path, calls: str) -> None:
    """Run the calls and compare the frames that they were recorded from with the marked lines."""
    script = folder / "script.py"
    script.write_text("".join(map(textwrap.dedent, (_BEGIN, calls, _END))))
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    expected = []
    for line, text in enumerate(script.read_text().splitlines(), start=1):
        marked = re.search(r"# calls?(?:: (\d+))?$", text)
        if marked is not None:
            expected += [["script.py", line]] * int(marked[1] or 1)
    assert json.loads(done.stdout.splitlines()[-1]) == expected


def test_calls_of_mpi4py_are_recorded_from_the_users_own_frame(tmp_path: Path) -> None:
    check_frames(tmp_path, MPI_CALLS)


def test_calls_of_torch_are_recorded_from_the_users_own_frame(tmp_path: Path) -> None:
    check_frames(tmp_path, TORCH_CALLS)
