"""Each rank looks at its own loss to decide when to stop."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for epoch in range(10):
    loss = torch.tensor([1.0 / (1 + epoch + 3 * rank)])
    if loss < 0.2:
        break
    dist.all_reduce(loss)  # <- here
best = torch.tensor([float(epoch)])
dist.broadcast(best, src=0)  # <- here
print("rank", rank, "stopped after", epoch)
dist.destroy_process_group()
