"""Four float32 are received as two int64."""
# ranks: 2
# finding: message dtype
# out of line: 0 1
# cause: dtype

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 0:
    dist.send(torch.ones(4), dst=1)  # <- here
else:
    room = torch.zeros(2, dtype=torch.int64)  # fixed: room = torch.zeros(4)
    dist.recv(room, src=0)  # <- here
    print("received", room.tolist())
dist.destroy_process_group()
