"""A ring waits for what it receives and not for what it sends."""
# ranks: 3
# warning: request-never-completed
# warned ranks: 0 1 2
# says: isend

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
mine, theirs = torch.ones(2), torch.empty(2)
sending = dist.isend(mine, (rank + 1) % world_size)  # <- here
dist.irecv(theirs, (rank - 1) % world_size).wait()
# fixed: sending.wait()
dist.barrier()
dist.destroy_process_group()
