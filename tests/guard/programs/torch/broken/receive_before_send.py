"""Neighbours swap their edges; all receive first."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
edge = torch.full((10,), float(rank))
ghost = torch.empty(10)
dist.recv(ghost, src=(rank - 1) % world_size)  # <- here
dist.send(edge, dst=(rank + 1) % world_size)
print("rank", rank, ghost[0].item())
dist.destroy_process_group()
