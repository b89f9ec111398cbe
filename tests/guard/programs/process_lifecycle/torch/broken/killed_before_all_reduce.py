"""A rank is killed, as by the kernel or the batch system."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: killed

import os
import signal

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
loss = torch.ones(1)
for step in range(3):
    dist.all_reduce(loss)  # <- here
    if rank == 1 and step == 1:
        os.kill(os.getpid(), signal.SIGKILL)  # fixed: pass
print("rank", rank, loss.item())
dist.destroy_process_group()
