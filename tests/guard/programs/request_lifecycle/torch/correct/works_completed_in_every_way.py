"""Works that are waited for, asked until they are complete, or completed through their future; groups in use."""
# ranks: 2

import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
right, left = (rank + 1) % world_size, (rank - 1) % world_size


def poll(value):
    work = dist.all_reduce(value, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)


def chain(value):
    return dist.all_reduce(value, async_op=True).get_future().then(lambda future: future.value()[0] / world_size)


values = torch.ones(3)
poll(values)
print(rank, values[0].item(), chain(torch.ones(2)).wait()[0].item())
print(rank, functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD)[0].item())
theirs = torch.empty(2)
works = [dist.irecv(theirs, left), dist.isend(torch.full((2,), float(rank)), right)]
for work in reversed(works):
    work.wait()
print(rank, theirs[0].item())
batch = [dist.P2POp(dist.isend, torch.ones(2), right), dist.P2POp(dist.irecv, theirs, left)]
[work.wait() for work in dist.batch_isend_irecv(batch)]
pairs = [dist.new_group([0, 1]) for _ in range(8)]
for _ in range(60):
    group = dist.new_group(list(range(world_size)))
    dist.barrier(group=group)
    dist.destroy_process_group(group)
dist.barrier()
print(rank, len(pairs))
dist.destroy_process_group()
