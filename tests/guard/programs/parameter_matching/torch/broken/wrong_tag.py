"""The result is sent with tag 7 and awaited with tag 8."""
# ranks: 2
# finding: message tag
# out of line: 0 1
# cause: wrong-tag

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
result = torch.zeros(3)
if dist.get_rank() == 1:
    dist.send(torch.ones(3), dst=0, tag=7)
elif dist.get_rank() == 0:
    dist.recv(result, src=1, tag=8)  # <- here  # fixed: dist.recv(result, src=1, tag=7)
dist.barrier()
print("rank", dist.get_rank(), result.tolist())
dist.destroy_process_group()
