"""A process group is made in every step and never destroyed."""
# ranks: 2
# warning: handle-leak
# warned ranks: 0 1
# says: process groups

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for _ in range(40):
    group = dist.new_group([0, 1])  # <- here
    dist.all_reduce(torch.ones(1), group=group)
    # fixed: dist.destroy_process_group(group)
dist.destroy_process_group()
