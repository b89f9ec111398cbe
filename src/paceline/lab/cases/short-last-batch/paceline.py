"""Evaluation: the predictions of every batch are gathered on all ranks."""

import torch
import torch.distributed as dist

from paceline import Batch, PlanSampler, connect
from paceline.loader import gather_batches

dist.init_process_group("gloo")
rank, comm = dist.get_rank(), connect()
samples = torch.arange(35)
collected = []
for ids in PlanSampler(samples, batch_size=4, shuffle=False):
    batch = Batch({"prediction": samples[ids]}, batch_size=len(ids)).pad_to(4)
    collected.append(gather_batches(comm, batch).real("prediction"))
print(f"rank {rank}: {len(torch.cat(collected))} predictions")
dist.destroy_process_group()
