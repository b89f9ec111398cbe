"""A sharded optimizer broadcasts its parameters in step(); rank 1 skips the step when its scaler found an overflow."""
# ranks: 2
# finding: mismatch operation | mismatch count | mismatch
# cause: skipped-call | uneven-steps | extra-call | different-collectives

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.Linear(6, 3)
optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.SGD, lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    model(torch.ones(2, 6)).sum().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)  # <- here
    found_inf = rank == 1 and step == 3  # fixed: found_inf = False
    if not found_inf:
        optimizer.step()  # <- here
print("rank", rank, "done")
dist.barrier()
dist.destroy_process_group()
