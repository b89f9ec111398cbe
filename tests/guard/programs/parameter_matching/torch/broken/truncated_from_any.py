"""The first rank receives from whoever comes, and one sends more than it has room for: gloo aborts."""
# ranks: 4
# finding: message count
# out of line: 0 2
# cause: truncated

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 0:
    room = torch.zeros(4)  # fixed: room = torch.zeros(6)
    for _ in range(dist.get_world_size() - 1):
        dist.recv(room)  # <- here
else:
    dist.send(torch.ones(6 if rank == 2 else 4), 0)  # <- here
dist.barrier()
dist.destroy_process_group()
