"""Longer sequences begin on each rank when its own accuracy allows it; attention masks are gathered."""
# ranks: 2
# finding: mismatch count
# out of line: 0 1
# cause: shape

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
length, accuracy = 8, 0.0
for _step in range(12):
    mask = torch.ones(length)
    masks = torch.empty(world_size * length)
    dist.all_gather_into_tensor(masks, mask)  # <- here
    accuracy += 0.2 if rank == 0 else 0.1  # fixed: accuracy += 0.2
    if accuracy > 0.7:
        length, accuracy = length * 2, 0.0
print("rank", rank, length)
dist.destroy_process_group()
