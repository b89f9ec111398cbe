"""Every rank makes a group of itself and its neighbour: the lists differ."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
first = rank - rank % 2
pair = dist.new_group([first, first + 1])  # <- here
value = torch.ones(1)
dist.all_reduce(value, group=pair)
print("rank", rank, value.item())
dist.destroy_process_group()
