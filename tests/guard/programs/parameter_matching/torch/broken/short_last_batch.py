"""Evaluation gathers predictions; the last batch of the last rank is short."""
# ranks: 7
# finding: mismatch count
# out of line: 6
# cause: shape

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
num_samples = 11 if rank == world_size - 1 else 12  # fixed: num_samples = 12
gathered = []
for batch in torch.arange(num_samples).split(4):
    everybodys = [torch.empty_like(batch) for _ in range(world_size)]
    dist.all_gather(everybodys, batch)  # <- here
    gathered += everybodys
print("rank", rank, sum(len(batch) for batch in gathered))
dist.destroy_process_group()
