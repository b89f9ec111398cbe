"""Rank 0 runs an extra backward of a DDP model for its visualisation."""
# ranks: 2
# finding: mismatch operation | peer-gone | mismatch
# out of line: 0 | 0 1
# cause: extra-call | rank-conditional-call
# launcher: split

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))


def loss_of(batch):
    return model(batch).pow(2).mean()


def saliency(batch):
    loss_of(batch).backward()  # <- here
    return model.module.weight.grad.abs().sum()


for step in range(6):
    batch = torch.ones(3, 4)
    loss_of(batch).backward()
    if step == 3 and rank == 0:  # fixed: if step == 3:
        print("saliency", float(saliency(batch)) >= 0)
dist.barrier()
model = None  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
