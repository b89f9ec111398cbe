"""A functional exchange, as layers with experts make it: one rank splits its tokens by another capacity."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: splits

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_to_all_single

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
capacity = 3 if rank == 1 else 2  # fixed: capacity = 2
splits = [capacity] * size
tokens = torch.ones(capacity * size, 4)
routed = all_to_all_single(tokens, splits, splits, dist.group.WORLD)  # <- here
print("rank", rank, routed.sum().item())
dist.destroy_process_group()
