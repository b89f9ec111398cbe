"""Rank 2 has four batches where the others have five; then all meet at a barrier."""
# ranks: 4
# finding: mismatch operation
# out of line: 2
# cause: uneven-steps

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
num_batches = 4 if dist.get_rank() == 2 else 5  # fixed: num_batches = 4
for batch in range(num_batches):
    gradient = torch.full((16,), float(batch))
    dist.all_reduce(gradient)  # <- here
dist.barrier()
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
