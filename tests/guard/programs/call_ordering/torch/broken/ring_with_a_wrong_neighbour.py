"""Ranks pass tensors around a ring; the last one sends back instead of on to rank 0."""
# ranks: 3
# finding: deadlock
# out of line: 2
# cause: send-without-receive | receive-without-send
# says: for a message of rank 2

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
left = (rank - 1) % size
right = rank + 1 if rank + 1 < size else rank - 1  # fixed: right = (rank + 1) % size
mine, theirs = torch.full((4,), float(rank)), torch.empty(4)
for _step in range(3):
    messages = [dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, theirs, left)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()  # <- here
    mine = theirs.clone()
dist.barrier()
print("rank", rank, mine.tolist())
dist.destroy_process_group()
