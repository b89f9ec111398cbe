"""Rank 1 skips a batch whose loss is not a number, so it skips the backward of it."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = torch.ones(6, 8, 4)
if rank == 1:
    batches[3, 0, 0] = float("nan")
for inputs in batches:
    optimizer.zero_grad()
    loss = model(inputs).mean()
    if torch.isnan(loss):
        continue
    loss.backward()  # <- here
    optimizer.step()
print("rank", rank, "trained")
dist.barrier()
dist.destroy_process_group()
