"""Two by two ranks: tensor parallel pairs and data parallel pairs; one layer reduces over the wrong one on rank 1."""
# ranks: 4
# finding: deadlock communicator | deadlock | mismatch
# out of line: 1 | 0 1 2 3 | 0 1 | 1 3 | 0 1 3
# cause: call-order | skipped-call | different-collectives

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
tensor_groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
data_groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
tensor_group, data_group = tensor_groups[rank // 2], data_groups[rank % 2]


def forward(hidden, layer):
    group = tensor_group
    if rank == 1 and layer == 2:
        group = data_group  # fixed: pass
    dist.all_reduce(hidden, group=group)  # <- here
    return hidden / 2


def backward(gradient):
    dist.all_reduce(gradient, group=data_group)
    return gradient / 2


for _step in range(4):
    hidden = torch.ones(8)
    for layer in range(4):
        hidden = forward(hidden, layer)
    backward(hidden)
print("rank", rank, "done")
dist.destroy_process_group()
