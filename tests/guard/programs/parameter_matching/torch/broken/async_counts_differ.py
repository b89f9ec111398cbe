"""The mismatch is posted without waiting; the wait comes later."""
# ranks: 2
# finding: mismatch count
# out of line: 0 1
# cause: shape

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
size = 200 if rank == 0 else 300  # fixed: size = 200
gradients = [torch.ones(100), torch.ones(size), torch.ones(50)]
works = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]  # <- here
for work in works:
    work.wait()
print("rank", rank, gradients[1][0].item())
dist.destroy_process_group()
