"""Rank 0 waits for a second message that rank 1 never sends."""
# ranks: 2
# finding: deadlock
# out of line: 0 | 0 1

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
first, second = torch.zeros(4), torch.zeros(4)
if dist.get_rank() == 0:
    works = [dist.irecv(first, src=1), dist.irecv(second, src=1)]
    for work in works:
        work.wait()  # <- here
else:
    dist.isend(torch.ones(4), dst=0).wait()  # fixed: [dist.isend(torch.ones(4), dst=0).wait() for _ in range(2)]
dist.barrier()
print("rank", dist.get_rank(), second.sum().item())
dist.destroy_process_group()
