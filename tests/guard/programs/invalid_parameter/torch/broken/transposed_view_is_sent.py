"""Rank 0 sends a transposed view, which is not contiguous; rank 1 waits for it."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: exception

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
weights = torch.ones(2, 3)
if dist.get_rank() == 0:
    dist.send(weights.t(), dst=1)  # <- here  # fixed: dist.send(weights.t().contiguous(), dst=1)
else:
    dist.recv(torch.empty(3, 2), src=0)
dist.barrier()
dist.destroy_process_group()
