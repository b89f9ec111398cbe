"""Two sums over one tensor are under way at the same time."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 0 1
# says: still uses

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(8)
works = [dist.all_reduce(total, async_op=True)]
# fixed: works.pop().wait()
works.append(dist.all_reduce(total[:4], async_op=True))  # <- here
[work.wait() for work in works]
dist.destroy_process_group()
