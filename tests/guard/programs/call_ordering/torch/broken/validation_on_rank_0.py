"""Rank 0 validates while the others train on; the metric is added up over all ranks inside."""
# ranks: 3
# finding: mismatch count
# out of line: 0
# cause: rank-conditional-call

import torch
import torch.distributed as dist


def validate(model, data):
    error = (model(data) - 1).abs().mean().detach()
    dist.all_reduce(error)  # <- here
    return error / dist.get_world_size()


dist.init_process_group("gloo")
model, data = torch.nn.Linear(3, 1), torch.ones(5, 3)
for epoch in range(3):
    gradient = torch.ones(10)
    dist.all_reduce(gradient)
    if dist.get_rank() == 0 and epoch == 1:  # fixed: if epoch == 1:
        print("error", validate(model, data))
dist.destroy_process_group()
