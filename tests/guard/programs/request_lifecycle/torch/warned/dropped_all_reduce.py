"""A sum is started and the work dropped: the barrier does not wait for it."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0 1
# says: all_reduce

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(4)


def sum_up():
    dist.all_reduce(total, async_op=True)  # <- here # fixed: dist.all_reduce(total)


sum_up()
dist.barrier()
dist.destroy_process_group()
