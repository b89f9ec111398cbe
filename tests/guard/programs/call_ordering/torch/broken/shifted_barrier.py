"""Rank 0 waits for a checkpoint of its own; its barriers are one ahead from then on, and the failure comes later."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call
# differs at: the marked lines

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
loss = torch.zeros(1)
for step in range(6):
    loss += step
    if dist.get_rank() == 0 and step == 2:  # fixed: if step == 2:
        print("checkpoint", step)
        dist.barrier()  # <- here
    dist.barrier()  # <- here
dist.all_reduce(loss)
print("rank", dist.get_rank(), loss.item())
dist.destroy_process_group()
