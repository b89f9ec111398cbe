"""Shards of a flat gradient: one rank cuts it another way."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: splits

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
cut = [3, 3, 2] if rank != 1 else [2, 3, 3]  # fixed: cut = [3, 3, 2]
shards = list(torch.arange(8.0).split(cut))
mine = torch.zeros_like(shards[rank])
dist.reduce_scatter(mine, shards)  # <- here
print("rank", rank, mine.tolist())
dist.destroy_process_group()
