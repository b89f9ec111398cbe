"""Ranks come from MPI; torch.distributed and mpi4py take turns."""

import os

import numpy as np
import torch
import torch.distributed as dist
from mpi4py import MPI

comm = MPI.COMM_WORLD
path = comm.bcast(os.path.abspath("store") if comm.rank == 0 else None)
dist.init_process_group("gloo", init_method=f"file://{path}", rank=comm.rank, world_size=comm.size)
value = torch.ones(1)
for step in range(5):
    dist.all_reduce(value)
    room = np.zeros(1)
    comm.Allreduce(np.array([float(comm.rank)]), room)
    if comm.rank == step % comm.size:
        comm.send(step, dest=(comm.rank + 1) % comm.size)
    elif comm.rank == (step + 1) % comm.size:
        comm.recv(source=step % comm.size)
    dist.barrier()
print("rank", comm.rank, value.item(), room.tolist())
dist.destroy_process_group()
comm.Barrier()
