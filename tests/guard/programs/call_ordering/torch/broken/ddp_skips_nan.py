"""Rank 1 skips a batch whose loss is not a number, so it skips the backward of it."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: skipped-call

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
        continue  # fixed: loss = sum(parameter.sum() * 0 for parameter in model.parameters()) + loss.nan_to_num() * 0
    loss.backward()  # <- here
    optimizer.step()
print("rank", rank, "trained")
dist.barrier()
del model  # a group that its model outlives may hang at exit (torch 2.13)
model = None  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
