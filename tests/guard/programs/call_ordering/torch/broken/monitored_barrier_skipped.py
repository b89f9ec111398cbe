"""One rank leaves out a monitored barrier and goes on to the next sum."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: skipped-call | rank-conditional-call

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(2)
dist.all_reduce(total)
if dist.get_rank() != 2:  # fixed: if True:
    dist.monitored_barrier()  # <- here
dist.all_reduce(total)
print("rank", dist.get_rank(), total)
dist.destroy_process_group()
