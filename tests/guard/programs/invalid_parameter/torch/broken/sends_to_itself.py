"""The last stage of a pipeline sends its result to itself."""
# ranks: 2
# finding: peer-gone | argument source
# out of line: 1
# cause: exception | no-such-rank

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
value = torch.ones(2)
following = min(rank + 1, 1)
if rank == 1:
    dist.recv(value, src=0)
# fixed: if rank == 0:
dist.send(value, dst=following)  # <- here  # fixed:     dist.send(value, dst=following)
dist.barrier()
dist.destroy_process_group()
