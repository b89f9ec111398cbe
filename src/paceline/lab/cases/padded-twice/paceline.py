"""Gathers the labels of a batch from all ranks; short batches are padded to 128 rows."""

import torch
import torch.distributed as dist

from paceline import Batch, connect
from paceline.loader import gather_batches

BATCH_SIZE = 128

dist.init_process_group("gloo")
rank = dist.get_rank()
num_real = 11 if rank == 1 else 128  # the last batch of rank 1 is short
batch = Batch({"label": torch.ones(num_real)}, batch_size=num_real).pad_to(BATCH_SIZE)
everyones = gather_batches(connect(), batch)
print(f"rank {rank}: {everyones.batch_size} rows, {everyones['label'].sum().item():.0f} labels")
dist.destroy_process_group()
