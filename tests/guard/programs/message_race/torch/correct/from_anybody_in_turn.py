"""Receives from anybody that only one message can meet, and receives that name their senders."""
# ranks: 3

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
value = torch.zeros(1)
for turn in (1, 2):
    if rank == turn:
        dist.send(torch.full((1,), float(turn)), dst=0)
    if rank == 0:
        print("got", dist.recv(value), value.item())
    dist.barrier()
work = dist.isend(torch.full((1,), float(rank)), dst=0) if rank else None
dist.barrier()
if rank == 0:
    for source in (2, 1):
        dist.recv(value, src=source)
        print("took", value.item())
else:
    work.wait()
dist.barrier()
dist.destroy_process_group()
