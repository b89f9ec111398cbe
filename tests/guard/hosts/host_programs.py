"""Programs that run on several hosts: correct, or broken as their first argument says. The last rank is the odd one."""

from __future__ import annotations

import textwrap
from pathlib import Path

# ranks begin once the watcher of their host watches, so that what is tested is not how fast a watcher starts
_READY = """
    import os, sys, time
    from paceline.guard.shared_memory.ring import judge_lives
    from pathlib import Path
    folder = os.environ.get("PACELINE_RUN_FOLDER")
    while folder and not judge_lives(Path(folder)):
        time.sleep(0.05)
    kind = sys.argv[1]
    """
_MPI = """
    if kind == "raises at once" and os.environ["PMI_RANK"] == "5":
        time.sleep(1.0)  # until the others wait for it
        raise ImportError("no")
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    for _ in range(3):
        world.allreduce(1)
    if sys.argv[2] == "go":  # when somebody says so
        Path(f"here.{world.rank}").touch()
        while not Path("go").exists():
            time.sleep(0.02)
        Path(f"gone.{world.rank}").touch()
    else:
        time.sleep(float(sys.argv[2]) if folder else 0.0)
    odd = world.rank == world.size - 1
    if kind == "mismatch":
        if odd:
            world.bcast(1, root=0)
        else:
            world.allreduce(1)
    elif kind == "receive" and odd:
        world.recv(source=0, tag=7)
    elif kind == "cycle":
        world.recv(source=(world.rank + 1) % world.size)
    elif kind == "raises" and odd:
        raise ValueError("no")
    elif kind == "keeper killed" and world.rank == 2:
        watcher = int((Path(folder) / "judge").read_text().split()[0])
        os.kill(int(Path(f"/proc/{watcher}/stat").read_text().rpartition(")")[2].split()[1]), 9)
        time.sleep(5)
    elif kind == "leaves" and odd:
        os._exit(0)
    elif kind == "killed" and odd:
        os.kill(os.getpid(), 9)
    elif kind == "crashes" and odd:
        os.kill(os.getpid(), 11)
    world.Barrier()
    if kind == "code 3":
        MPI.Finalize()
        os._exit(3)
    print("end", flush=True)
    """
# goes on whatever it has called: the ranks of the last host differ as its first argument says
_PASSED = """
    import numpy
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    odd = world.rank >= world.size - 2
    values, total = numpy.ones(4), numpy.zeros(4)
    rows = world.Split(world.rank % 2)
    counts = [rank + 1 for rank in range(world.size)]
    parts = [numpy.zeros(sum(counts)), counts] if world.rank == 0 else None
    until = time.monotonic() + float(sys.argv[2])
    step, is_over = 0, False
    while not is_over:
        step += 1
        differs = odd and (kind == "always" or (kind == "once" and step == 20))
        if differs:
            world.Allreduce(values, total, op=MPI.MAX)
        else:
            world.Allreduce(values, total, op=MPI.SUM)
        world.Bcast(values, root=0)
        world.Gatherv(numpy.ones(world.rank + 1), parts, root=0)
        world.bcast(list(range(step % 7)) if world.rank == 0 else None, root=0)
        rows.allgather(world.rank)
        copy = rows.Dup()
        copy.Barrier()
        copy.Free()
        time.sleep(float(sys.argv[3]))
        peer = (world.rank + 3) % world.size  # on another host
        sent = numpy.ones(3, dtype="f4" if kind == "message" and world.rank == 5 else "f8")
        received = numpy.zeros(4)
        world.Sendrecv(sent, peer, 0, received, peer, 0)
        request = world.Isend(sent, peer, tag=1)
        world.Recv(received, source=peer, tag=1)
        request.Wait()
        is_over = world.bcast(time.monotonic() > until if world.rank == 0 else None, root=0)
    print("end", flush=True)
    """
_TORCH = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    dist.all_reduce(torch.zeros(1))
    time.sleep(12.0 if kind == "slow" else 1.0)
    if kind.endswith("mismatch") and dist.get_rank() == dist.get_world_size() - 1:
        dist.broadcast(torch.zeros(1), 0)
    else:
        dist.all_reduce(torch.zeros(1))
    dist.barrier()
    dist.destroy_process_group()
    print("end", flush=True)
    """
# switches the guard on by itself
_ENABLED = """
    import os, sys, time
    import paceline.guard
    from paceline.guard.rank.watched_process import SESSION
    kind = sys.argv[1]
    paceline.guard.enable()
    if kind == "head killed" and os.environ["RANK"] == "0":
        os.kill(int((SESSION.folder / "judge").read_text().split()[0]), 9)
    if kind == "head killed, mismatch" and os.environ["RANK"] == "0":
        def head():
            return int((SESSION.folder / "judge").read_text().split()[0])
        def parent():
            return open(f"/proc/{head()}/stat").read().split()[3]
        while b"judge_process" not in open(f"/proc/{parent()}/cmdline", "rb").read():  # it is its keeper yet
            time.sleep(0.01)
        os.kill(head(), 9)
    """
# as people do who start ranks of torch by srun itself
_SLURM = """
    import os
    for name, known in (("RANK", "SLURM_PROCID"), ("LOCAL_RANK", "SLURM_LOCALID"), ("WORLD_SIZE", "SLURM_NTASKS")):
        os.environ[name] = os.environ[known]
    """
_PROGRAMS = {
    "mpi.py": (_READY, _MPI),
    "passed.py": (_READY, _PASSED),
    "torch_job.py": (_READY, _TORCH),
    "enabled.py": (_ENABLED, _TORCH),
    "slurm_torch.py": (_SLURM, _READY, _TORCH),
}


def write_programs(folder: Path) -> None:
    """Write the programs into a folder."""
    for name, parts in _PROGRAMS.items():
        (folder / name).write_text("".join(map(textwrap.dedent, parts)))


def line_of(program: Path, place: str) -> str:
    """Return the line of a program that a place such as train.py:3 names."""
    return program.read_text().splitlines()[int(place.rpartition(":")[2]) - 1]
