"""Rank 0 saves the checkpoint to a full disk; the others wait at the barrier after it."""

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.Linear(100, 100)
dist.barrier()
if dist.get_rank() == 0:
    with open("/dev/full", "wb", buffering=0) as checkpoint:
        checkpoint.write(model.weight.detach().numpy().tobytes())  # <- here
dist.barrier()
print("rank", dist.get_rank(), "saved")
dist.destroy_process_group()
