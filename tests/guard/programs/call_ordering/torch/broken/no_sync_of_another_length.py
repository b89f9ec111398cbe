"""Gradients are accumulated with DDP's no_sync, over fewer micro-batches on one rank: its setting is another."""
# ranks: 3
# finding: mismatch count
# out of line: 2
# cause: extra-call
# says: by `no_sync` or the like

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(model, optimizer, num_steps, accumulate):
    for step in range(1, num_steps + 1):
        is_last = step % accumulate == 0
        with contextlib.nullcontext() if is_last else model.no_sync():
            model(torch.randn(2, 6)).mean().backward()  # <- here
        if is_last:
            optimizer.step()
            optimizer.zero_grad()


dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(6, 6))
accumulate = 2 if dist.get_rank() == 2 else 4  # fixed: accumulate = 4
train(model, torch.optim.SGD(model.parameters(), lr=0.1), 16, accumulate)
metric = torch.ones(())
dist.all_reduce(metric)
print("rank", dist.get_rank(), "done")
model = None  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
