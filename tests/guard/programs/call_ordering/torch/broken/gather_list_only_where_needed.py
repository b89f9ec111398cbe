"""Losses are logged by gather to rank 0 every 5 steps, but a rank that joined late counts its own steps."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: skipped-call | extra-call | rank-conditional-call | call-order | different-collectives

import torch
import torch.distributed as dist


class Logger:
    def __init__(self, every, start):
        self.every, self.count = every, start

    def tick(self, loss):
        self.count += 1
        if self.count % self.every == 0:
            self.flush(loss)

    def flush(self, loss):
        rank, world_size = dist.get_rank(), dist.get_world_size()
        into = [torch.zeros(1) for _ in range(world_size)] if rank == 0 else None
        dist.gather(loss, into, dst=0)  # <- here


dist.init_process_group("gloo")
logger = Logger(every=5, start=2 if dist.get_rank() == 2 else 0)  # fixed: logger = Logger(every=5, start=0)
for _step in range(15):
    gradient = torch.ones(4)
    dist.all_reduce(gradient)  # <- here
    logger.tick(torch.ones(1))
dist.barrier()
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
