"""Full sharding: evaluation on rank 0 gathers parameters that the others must gather as well."""
# ranks: 2
# finding: mismatch operation | peer-gone
# out of line: 0 | 0 1 | 1
# cause: rank-conditional-call | early-exit | uneven-steps

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(3):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
if rank == 0:  # fixed: if True:
    with torch.no_grad():
        print("score", model(torch.ones(2, 8)).shape)  # <- here
dist.barrier()
dist.destroy_process_group()
