"""Three stages pass micro-batches on; the middle one drops one that has nothing but padding."""
# ranks: 3
# finding: deadlock
# out of line: 1
# cause: receive-without-send
# says: rank 1 left out the send

import torch
import torch.distributed as dist

MICRO_BATCHES = 4


def run_step(step):
    for number in range(MICRO_BATCHES):
        if rank == 1 and (step, number) == (1, 2):
            continue  # fixed: pass
        hidden = torch.full((8,), float(number))
        if rank > 0:
            dist.recv(hidden, src=rank - 1)
        if rank < size - 1:
            dist.send(hidden + rank, dst=rank + 1)  # <- here
    gradient = torch.ones(2)
    dist.all_reduce(gradient)  # <- here


dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for step in range(3):
    run_step(step)
print("rank", rank, "done")
dist.destroy_process_group()
