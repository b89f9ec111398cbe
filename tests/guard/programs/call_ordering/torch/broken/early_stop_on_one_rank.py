"""Each rank looks at its own loss to decide when to stop."""
# ranks: 2
# finding: mismatch operation
# out of line: 1 | 0 1
# cause: uneven-steps

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
for epoch in range(10):
    loss = torch.tensor([1.0 / (1 + epoch + 3 * rank)])
    # fixed: dist.all_reduce(loss, op=dist.ReduceOp.MIN)
    if loss < 0.2:
        break
    dist.all_reduce(loss)  # <- here
best = torch.tensor([float(epoch)])
dist.broadcast(best, src=0)  # <- here
print("rank", rank, "stopped after", epoch)
dist.destroy_process_group()
