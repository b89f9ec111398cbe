"""During warm-up weights are broadcast after each step; ranks count their own successful steps."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: extra-call | rank-conditional-call | skipped-call | uneven-steps

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
weights = torch.zeros(6)
num_good = 0
for step in range(10):
    gradient = torch.ones(6)
    dist.all_reduce(gradient)
    weights -= 0.1 * gradient
    if num_good < 5:
        dist.broadcast(weights, 0)  # <- here
    is_good = not (rank == 1 and step == 2)  # fixed: is_good = True
    num_good += is_good
print("rank", rank, "done")
dist.destroy_process_group()
