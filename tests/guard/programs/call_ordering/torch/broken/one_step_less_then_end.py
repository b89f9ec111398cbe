"""Rank 1 has four batches where the other has five, and ends."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: uneven-steps
# launcher: own

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
num_batches = 4 if dist.get_rank() == 1 else 5  # fixed: num_batches = 4
for batch in range(num_batches):
    gradient = torch.full((16,), float(batch))
    dist.all_reduce(gradient)  # <- here
print("rank", dist.get_rank(), "done")
