"""Trains with DistributedDataParallel; a batch whose loss is not a number is left out."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
layer = torch.nn.Linear(4, 1)
torch.nn.init.constant_(layer.weight, 0.5)
model = DistributedDataParallel(layer)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
batches = torch.ones(6, 8, 4)
if rank == 1:
    batches[3, 0, 0] = float("nan")  # one bad sample on one rank
for inputs in batches:
    optimizer.zero_grad()
    loss = model(inputs).mean()
    is_bad = torch.isnan(loss).float()
    dist.all_reduce(is_bad, op=dist.ReduceOp.MAX)
    if is_bad:  # on any rank: then all leave the step out
        continue
    loss.backward()
    optimizer.step()
dist.barrier()
print(f"rank {rank}: weight {layer.weight[0, 0].item():.2f}")
del model  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
