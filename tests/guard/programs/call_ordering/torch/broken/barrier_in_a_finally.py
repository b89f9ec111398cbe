"""Whatever happens, all ranks are to meet at the end of training; rank 1 comes there by an exception."""
# ranks: 3
# finding: mismatch operation
# out of line: 1
# cause: skipped-call
# says: an exception led rank 1 to the barrier
# differs at: the marked lines

import torch
import torch.distributed as dist


def train(weights):
    try:
        for step in range(5):
            gradient = torch.ones(2) * weights[step]
            dist.all_reduce(gradient)  # <- here
    finally:
        dist.barrier()  # <- here


dist.init_process_group("gloo")
weights = dict.fromkeys(range(5), 1.0)
if dist.get_rank() == 1:
    del weights[2]  # fixed: pass
train(weights)
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
