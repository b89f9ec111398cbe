"""Training is even, but the validation loader of rank 0 has one batch more; the loss is reduced per batch."""
# ranks: 2
# finding: mismatch count
# out of line: 0 1
# cause: uneven-steps

import torch
import torch.distributed as dist


def validate(loader):
    total = torch.zeros(1)
    for batch in loader:
        loss = batch.mean().reshape(1)
        dist.all_reduce(loss)  # <- here
        total += loss
    return total


def train_epoch(loader):
    for batch in loader:
        gradient = batch * 2
        dist.all_reduce(gradient)  # <- here


dist.init_process_group("gloo")
rank = dist.get_rank()
train_loader = [torch.ones(4)] * 5
validation_loader = [torch.ones(4)] * (4 if rank == 0 else 3)  # fixed: validation_loader = [torch.ones(4)] * 3
for _epoch in range(3):
    train_epoch(train_loader)
    validate(validation_loader)
dist.destroy_process_group()
