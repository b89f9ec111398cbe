"""A schedule of four micro-batches over three stages; the middle stage drops one that overflowed."""
# ranks: 3
# finding: peer-gone | deadlock
# out of line: 1
# cause: receive-without-send | early-exit | uneven-steps

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
overflow = torch.tensor([0.0, 0.0, float("inf"), 0.0])
for micro_batch in range(4):
    hidden = torch.full((4,), float(micro_batch))
    if rank > 0:
        dist.recv(hidden, src=rank - 1)  # <- here
    if rank == 1 and torch.isinf(overflow[micro_batch]):
        continue  # fixed: hidden.zero_()
    if rank < 2:
        dist.send(hidden + 1, dst=rank + 1)  # <- here
dist.barrier()
print("rank", rank, "done")
dist.destroy_process_group()
