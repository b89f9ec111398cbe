"""Two groups of the same ranks, used in one order by rank 0 and in the other by rank 1."""
# ranks: 2
# finding: deadlock communicator
# out of line: 0 1
# cause: call-order

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
model_group = dist.new_group([0, 1])
data_group = dist.new_group([0, 1])
value = torch.ones(4)
if rank == 0:  # fixed: if True:
    dist.all_reduce(value, group=model_group)  # <- here
    dist.all_reduce(value, group=data_group)
elif rank == 1:
    dist.all_reduce(value, group=data_group)  # <- here
    dist.all_reduce(value, group=model_group)
dist.barrier()
print("rank", rank, value.tolist())
dist.destroy_process_group()
