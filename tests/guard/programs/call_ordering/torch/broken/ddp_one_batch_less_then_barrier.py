"""DistributedDataParallel with one batch less on the last rank, which then waits at a barrier."""
# ranks: 2
# finding: mismatch operation
# out of line: 0 1
# cause: uneven-steps

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = torch.ones(4 if rank == world_size - 1 else 5, 8, 4)  # fixed: batches = torch.ones(4, 8, 4)
for inputs in batches:
    optimizer.zero_grad()
    loss = model(inputs).mean()
    loss.backward()  # <- here
    optimizer.step()
dist.barrier()
print("rank", rank, "trained")
del model  # a group that its model outlives may hang at exit (torch 2.13)
model = None  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
