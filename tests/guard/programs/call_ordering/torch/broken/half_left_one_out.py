"""Two of four ranks drop a batch whose labels are missing; nothing tells who is right."""
# ranks: 4
# finding: mismatch operation
# out of line: 0 1 2 3 | 1 3
# cause: skipped-call

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
labels = torch.ones(9, dtype=torch.long)
if rank % 2:
    labels[4] = -1
for _step, label in enumerate(labels):
    if label < 0:
        continue  # fixed: label = torch.zeros(())
    loss = label.float().reshape(1)
    dist.all_reduce(loss)  # <- here
result = torch.zeros(1)
dist.broadcast(result, 0)
print("rank", rank, "done")
dist.destroy_process_group()
