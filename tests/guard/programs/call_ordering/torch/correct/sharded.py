"""Functional collectives, DTensor, FSDP2, collectives with gradients, and a distributed checkpoint."""
# ranks: 2

import os

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as checkpoint
import torch.distributed.nn.functional as with_gradients
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world_size,))
total = functional.all_reduce(torch.ones(3), "sum", mesh)
scattered = functional.reduce_scatter_single(torch.ones(4 * world_size), "sum", 0, dist.group.WORLD)
gathered = functional.all_gather_single(scattered, 0, dist.group.WORLD)
print(rank, total.tolist(), gathered.sum().item())
leaf = torch.ones(2, requires_grad=True)
with_gradients.all_reduce(leaf * 2).sum().backward()
matrix = distribute_tensor(torch.arange(12.0).reshape(6, 2), mesh, [Shard(0)])
product = (matrix @ matrix.T).redistribute(mesh, [Replicate()])
print(rank, leaf.grad.tolist(), product.to_local().sum().item(), matrix.full_tensor().sum().item())
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(3):
    model(torch.ones(4, 8)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
folder = os.path.abspath("saved")
checkpoint.save(model.state_dict(), checkpoint_id=folder)
state = model.state_dict()
checkpoint.load(state, checkpoint_id=folder)
print(rank, "saved", round(sum(value.full_tensor().sum().item() for value in state.values()), 4))
if rank == 0:
    torch.save({"step": 3}, "step.pt")
dist.barrier()
print(rank, torch.load("step.pt"))
dist.destroy_process_group()
