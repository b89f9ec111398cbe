"""Rank 0 multiplies what the others add: gloo gives a number to everybody."""
# ranks: 2
# finding: mismatch reduction
# out of line: 0 1
# cause: reduction

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
values = torch.arange(4.0) + 1
op = dist.ReduceOp.PRODUCT if dist.get_rank() == 0 else dist.ReduceOp.SUM  # fixed: op = dist.ReduceOp.SUM
dist.all_reduce(values, op=op)  # <- here
print("rank", dist.get_rank(), values.tolist())
dist.destroy_process_group()
