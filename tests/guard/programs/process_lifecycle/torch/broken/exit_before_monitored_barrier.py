"""One rank is done early, while the others wait for it in a monitored barrier."""
# ranks: 3
# finding: peer-gone
# out of line: 1

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(2)
dist.all_reduce(total)
if dist.get_rank() == 1:  # fixed: if False:
    sys.exit()
dist.monitored_barrier()  # <- here
print("rank", dist.get_rank(), total)
dist.destroy_process_group()
