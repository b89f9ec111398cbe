"""Eight float32 against four float64: as many bytes, and nonsense in them."""
# ranks: 2
# finding: mismatch dtype
# out of line: 0 1
# cause: dtype

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
gradient = torch.ones(8)
if dist.get_rank() == 0:
    gradient = torch.ones(4, dtype=torch.float64)  # numpy's default came through  # fixed: pass
dist.all_reduce(gradient)  # <- here
print("rank", dist.get_rank(), gradient.tolist())
dist.destroy_process_group()
