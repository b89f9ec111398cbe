"""Gradients are reduced in the background; rank 1 has a parameter without gradient and starts one reduction less."""
# ranks: 3
# finding: mismatch count | mismatch operation
# out of line: 1
# cause: skipped-call | shape

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
sizes = {"embedding": 12, "hidden": 8, "head": 4}
for step in range(6):
    gradients = {name: torch.ones(size) for name, size in sizes.items()}
    if rank == 1 and step == 3:
        gradients["hidden"] = None  # fixed: pass
    works = []
    for _name, gradient in gradients.items():
        if gradient is not None:
            works.append(dist.all_reduce(gradient, async_op=True))  # <- here
    for work in works:
        work.wait()
dist.barrier()
print("rank", rank, "done")
dist.destroy_process_group()
