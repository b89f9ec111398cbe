"""A loop waits for its last work only."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0 1

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for value in range(4):
    work = dist.broadcast(torch.full((3,), float(value)), src=0, async_op=True)  # <- here
    # fixed: work.wait()
work.wait()
dist.barrier()
dist.destroy_process_group()
