"""Metrics are added up in the order of a dict, and rank 2 has filled it the other way round."""
# ranks: 3
# finding: mismatch count
# out of line: 2
# cause: call-order
# says: with the same tensors in the same order

import torch
import torch.distributed as dist


def add_up(metrics):
    for value in metrics.values():
        dist.all_reduce(value)  # <- here


dist.init_process_group("gloo")
for step in range(4):
    metrics = {"loss": torch.ones(1), "accuracy": torch.ones(5)}
    if dist.get_rank() == 2 and step == 1:  # fixed: if False:
        metrics = {"accuracy": torch.ones(5), "loss": torch.ones(1)}
    add_up(metrics)
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
