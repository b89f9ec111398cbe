"""A pipeline of four stages; the third does not send back the gradient of its last micro-batch."""
# ranks: 4
# finding: deadlock
# out of line: 2
# cause: receive-without-send
# says: rank 2 made 3 calls of send

import torch
import torch.distributed as dist

NUM_MICRO_BATCHES = 4
dist.init_process_group("gloo")
rank, is_last = dist.get_rank(), dist.get_rank() == dist.get_world_size() - 1


def forward():
    activation = torch.zeros(2)
    if rank > 0:
        dist.recv(activation, src=rank - 1)
    if not is_last:
        dist.send(activation + 1, dst=rank + 1)


def backward(number):
    gradient = torch.ones(2)
    if not is_last:
        dist.recv(gradient, src=rank + 1)  # <- here
    if rank == 2 and number == NUM_MICRO_BATCHES - 1:
        return  # fixed: pass
    if rank > 0:
        dist.send(gradient, dst=rank - 1)  # <- here


for _ in range(NUM_MICRO_BATCHES):
    forward()
for number in range(NUM_MICRO_BATCHES):
    backward(number)
dist.barrier()
print("rank", rank, "done")
dist.destroy_process_group()
