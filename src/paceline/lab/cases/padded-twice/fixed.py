"""Gathers the labels of a batch from all ranks; short batches are padded to 128 rows."""

import torch
import torch.distributed as dist

BATCH_SIZE = 128


def collate(labels):
    return torch.nn.functional.pad(labels, (0, BATCH_SIZE - len(labels)))


dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
num_real = 11 if rank == 1 else 128  # the last batch of rank 1 is short
labels = collate(torch.ones(num_real))  # padded once, in one place
everyones = torch.zeros(world_size * labels.numel())
dist.all_gather_into_tensor(everyones, labels)
print(f"rank {rank}: {everyones.numel()} rows, {everyones.sum().item():.0f} labels")
dist.destroy_process_group()
