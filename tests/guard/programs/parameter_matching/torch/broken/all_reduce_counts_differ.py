"""One rank has eight classes where the others have four."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: shape

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
labels = torch.arange(8 if dist.get_rank() == 1 else 4)
per_class = torch.bincount(labels).float()  # fixed: per_class = torch.bincount(labels, minlength=8).float()
dist.all_reduce(per_class)  # <- here
print("rank", dist.get_rank(), per_class.tolist())
dist.destroy_process_group()
