"""A rank leaves at once although another waits for its message."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: early-exit

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
if rank == 1:
    os._exit(0)  # <- here  # fixed: dist.send(torch.ones(1), dst=0)
if rank == 0:
    message = torch.zeros(1)
    dist.recv(message, src=1)
    print("rank", rank, message.item())
dist.destroy_process_group()
