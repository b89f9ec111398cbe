"""A plain DDP training loop on gloo; rank 0 prints microseconds per step as JSON."""

import json
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BLOCKS, STEPS = 15, 20
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
layers = [torch.nn.Linear(256, 256), torch.nn.ReLU()] * 3
model = DistributedDataParallel(torch.nn.Sequential(*layers, torch.nn.Linear(256, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, labels = torch.randn(128, 256), torch.randint(0, 10, (128,))


def step():
    """Make one step of training."""
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()


for _ in range(10):
    step()
figures = []
for _ in range(BLOCKS):
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    figures.append((time.perf_counter() - begin) / STEPS * 1e6)
if dist.get_rank() == 0:
    print(json.dumps({"training step": statistics.median(figures)}), flush=True)
dist.barrier()
model = None  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
