"""Rank 1 alone tries its model out on tensors that have a shape and no data: calls with these communicate nothing."""
# ranks: 2

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()


def try_out(device):
    weights = torch.ones(8, device=device)
    dist.all_reduce(weights)
    dist.broadcast(torch.nn.Parameter(weights), src=0)
    dist.all_gather([torch.empty_like(weights) for _ in range(world_size)], weights)
    dist.all_reduce(weights, async_op=True).wait()


if rank == 1:
    try_out("meta")
    dist.send(torch.ones(8, device="meta"), dst=0)
    with FakeTensorMode():
        try_out("cpu")
total = torch.nn.Parameter(torch.full((4,), float(rank)), requires_grad=False)
dist.all_reduce(total)
print("rank", rank, total[0].item())
dist.destroy_process_group()
