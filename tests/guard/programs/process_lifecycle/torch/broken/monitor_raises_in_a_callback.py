"""A callback stops training by SystemExit on the rank whose loss exploded."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: early-exit | exception

import sys

import torch
import torch.distributed as dist


class StopOnExplosion:
    def after_step(self, step, loss):
        if loss > 100:
            sys.exit(0)  # <- here  # fixed: pass


dist.init_process_group("gloo")
rank = dist.get_rank()
callbacks = [StopOnExplosion()]
for step in range(8):
    gradient = torch.ones(4)
    dist.all_reduce(gradient)
    loss = 1000.0 if (rank, step) == (2, 4) else 0.5
    for callback in callbacks:
        callback.after_step(step, loss)
dist.barrier()
dist.destroy_process_group()
