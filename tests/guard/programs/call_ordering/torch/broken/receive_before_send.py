"""Neighbours swap their edges; all receive first."""
# ranks: 2
# finding: deadlock
# out of line: 0 1
# cause: receive-receive

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
edge = torch.full((10,), float(rank))
ghost = torch.empty(10)
right, left = (rank + 1) % world_size, (rank - 1) % world_size
dist.recv(ghost, src=left)  # <- here  # fixed: sending = dist.isend(edge, dst=right)
dist.send(edge, dst=right)  # fixed: dist.recv(ghost, src=left); sending.wait()
print("rank", rank, ghost[0].item())
dist.destroy_process_group()
