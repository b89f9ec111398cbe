"""What torch starts for the program, it completes by itself: data-parallel hooks, sharding, joins of uneven inputs."""
# ranks: 2

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 2))


def average(state, bucket):
    tensor = bucket.buffer() / world_size
    return dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: future.value()[0])


model.register_comm_hook(None, average)
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.SGD, lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
plain = DistributedDataParallel(torch.nn.Linear(4, 2))
with plain.join():
    for _ in range(2 + rank):
        plain(torch.ones(2, 4)).sum().backward()
print(rank, [round(parameter.sum().item(), 4) for parameter in model.parameters()])
dist.barrier()
model = plain = None  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
