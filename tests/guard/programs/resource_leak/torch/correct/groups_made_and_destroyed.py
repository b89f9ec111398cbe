"""Groups are made and destroyed in every step; a few are kept for the whole job and used again and again."""
# ranks: 2

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
kept = [dist.new_group([0, 1]) for _ in range(6)]
value = torch.ones(1)
for step in range(40):
    group = dist.new_group([0, 1])
    dist.all_reduce(value, op=dist.ReduceOp.MAX, group=group)
    dist.all_reduce(value, op=dist.ReduceOp.MAX, group=kept[step % 6])
    dist.destroy_process_group(group)
print("rank", dist.get_rank(), value.item())
dist.destroy_process_group()
