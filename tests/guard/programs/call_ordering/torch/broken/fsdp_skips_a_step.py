"""FSDP2: one rank skips the backward of a step, then goes on to the next forward."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: skipped-call

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    loss = model(torch.ones(4, 8)).mean()  # <- here
    if rank == 1 and step == 2:
        continue  # its batch was bad  # fixed: loss = loss * 0
    loss.backward()  # <- here
    optimizer.step()
    optimizer.zero_grad()
print("rank", rank, "trained")
dist.destroy_process_group()
