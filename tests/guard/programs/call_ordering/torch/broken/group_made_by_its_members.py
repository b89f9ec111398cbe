"""The data-parallel group of the first stage is made by its members, the others go on to the first broadcast."""
# ranks: 4
# finding: mismatch operation | deadlock | mismatch communicator
# out of line: 0 1 | 2 3 | 0 1 2 3
# cause: rank-conditional-call | group

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
is_first_stage = rank < world_size // 2
stage_group = None
if is_first_stage:  # fixed: if True:
    stage_group = dist.new_group(list(range(world_size // 2)))  # <- here
weights = torch.full((4,), float(rank))
dist.broadcast(weights, 0)
if is_first_stage:
    dist.all_reduce(weights, group=stage_group)
print("rank", rank, weights[0].item())
dist.destroy_process_group()
