"""Each rank broadcasts from the rank it believes to be the best."""
# ranks: 3
# finding: mismatch root
# out of line: 2
# cause: root

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
best = 0 if rank < 2 else 1  # decided from data of one rank  # fixed: best = 0
weights = torch.full((8,), float(rank))
dist.broadcast(weights, src=best)  # <- here
print("rank", rank, weights.tolist())
dist.destroy_process_group()
