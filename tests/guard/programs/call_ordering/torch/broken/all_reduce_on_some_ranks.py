"""Only ranks that have seen a sample add it up; the others go on to the end."""
# ranks: 3
# finding: mismatch operation
# out of line: 0 | 1 2
# cause: rank-conditional-call

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
seen = torch.tensor([float(rank)])
dist.barrier()
if seen.item() > 0:  # fixed: if True:
    dist.all_reduce(seen)  # <- here
dist.barrier()
print("rank", rank, seen.item())
dist.destroy_process_group()
