"""Rank 2 sends the result; rank 0 waits for it from rank 1."""
# ranks: 3
# finding: message source
# out of line: 0 2 | 0 1 2
# cause: wrong-source

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
result = torch.zeros(3)
if dist.get_rank() == 2:
    dist.send(torch.ones(3), dst=0)
elif dist.get_rank() == 0:
    dist.recv(result, src=1)  # <- here  # fixed: dist.recv(result, src=2)
dist.barrier()
print("rank", dist.get_rank(), result.tolist())
dist.destroy_process_group()
