"""A group of two ranks broadcasts from a rank that is not in it."""
# ranks: 3
# finding: argument root | peer-gone
# out of line: 0 1 | 0 | 1
# cause: no-such-rank | exception

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
pair = dist.new_group([0, 1])
value = torch.ones(2)
if dist.get_rank() < 2:
    dist.broadcast(value, src=2, group=pair)  # <- here  # fixed: dist.broadcast(value, src=1, group=pair)
dist.barrier()
dist.destroy_process_group()
