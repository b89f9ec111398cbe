"""Six numbers are sent to a rank that has room for four."""
# ranks: 2
# finding: message count
# out of line: 0 1
# cause: truncated

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 0:
    dist.send(torch.ones(6), dst=1)  # <- here
else:
    room = torch.empty(4)  # fixed: room = torch.empty(6)
    dist.recv(room, src=0)  # <- here
print("rank", rank, "done")
dist.destroy_process_group()
