"""Rank 0 saves the checkpoint to a full disk; the others wait at the barrier after it."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: disk-full
# launcher: own

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.Linear(100, 100)
dist.barrier()
if dist.get_rank() == 0:
    path = "/dev/full"  # fixed: path = "/dev/null"
    with open(path, "wb", buffering=0) as checkpoint:
        checkpoint.write(model.weight.detach().numpy().tobytes())  # <- here
dist.barrier()
print("rank", dist.get_rank(), "saved")
dist.destroy_process_group()
