"""One rank passes over a file that it cannot read, and destroys its group while the others still work on the last."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: skipped-call
# says: after 3 calls of all_reduce

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for name in ["a", "b", "c", "d"]:
    if dist.get_rank() == 2 and name == "c":
        continue  # fixed: pass
    total = torch.ones(1)
    dist.all_reduce(total)  # <- here
    dist.monitored_barrier()
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
