"""Ranks have processes of their own: loader workers, other Pythons, forks, even another small job."""

import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

ALONE = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
value = torch.ones(1); dist.all_reduce(value); dist.barrier()
print("alone", value.item())
"""

dist.init_process_group("gloo")
rank = dist.get_rank()
for _epoch in range(2):
    for (batch,) in DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2):
        dist.all_reduce(batch)
print(rank, batch.tolist())
code = subprocess.call([sys.executable, "-c", "import sys; sys.exit(5)"])
if rank == 0:
    said = subprocess.check_output([sys.executable, "-c", ALONE, os.path.abspath("store")], text=True)
    print(said.strip())
sys.stdout.flush()
child = os.fork()
if child == 0:
    os._exit(7)
print(rank, "child", code, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
dist.barrier()
dist.destroy_process_group()
