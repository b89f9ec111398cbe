"""Experts exchange tokens; one rank builds its list of output sizes from a mask with one token less."""
# ranks: 2
# finding: mismatch count | message | peer-gone | deadlock
# cause: shape

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
for layer in range(3):
    capacity = 6 if (rank, layer) == (1, 2) else 8  # fixed: capacity = 8
    tokens = torch.ones(capacity)
    received = torch.empty(capacity)
    dist.all_to_all_single(received, tokens)  # <- here
print("rank", rank, "done")
dist.destroy_process_group()
