"""The sum is logged before the work has completed."""
# ranks: 2
# not found: what Python code reads from a tensor is not seen, only what calls use

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
loss = torch.ones(1)
work = dist.all_reduce(loss, async_op=True)
# fixed: work.wait()
seen = loss.item()  # <- here
work.wait()
dist.destroy_process_group()
