"""Gradients are accumulated over 4 micro-batches with DDP's no_sync; rank 1 has miscounted, and synchronises later."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: skipped-call
# differs at: the marked lines

import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
seen = 0
for step in range(24):
    if not (dist.get_rank() == 1 and step == 9):  # fixed: if True:
        seen += 1
    is_last = seen % 4 == 0
    with contextlib.nullcontext() if is_last else model.no_sync():
        loss = model(torch.randn(2, 4)).mean() / 4
        loss.backward()  # <- here
    if is_last:
        optimizer.step()
        optimizer.zero_grad()
    if (step + 1) % 8 == 0:
        total = loss.detach().clone()
        dist.all_reduce(total)  # <- here
print("rank", dist.get_rank(), "done")
model = None  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
