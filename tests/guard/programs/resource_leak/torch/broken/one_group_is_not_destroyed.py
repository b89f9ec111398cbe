"""A process group is made once and not destroyed before the end."""
# ranks: 2
# not found: the guard speaks of a leak only when groups grow in number, because programs keep a few until the end

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
group = dist.new_group([0, 1])  # <- here
dist.all_reduce(torch.ones(1), group=group)
dist.barrier()
# fixed: dist.destroy_process_group(group)
# fixed: dist.destroy_process_group()
os._exit(0)  # at the end of the process torch may abort for groups that are left
