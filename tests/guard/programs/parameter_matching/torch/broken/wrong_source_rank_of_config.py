"""The rank that has the pretrained weights is read from a file; one node has an old file."""
# ranks: 4
# finding: mismatch root
# out of line: 3
# cause: root

import json

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
config = json.loads('{"source_rank": 0, "num_steps": 3}')
if rank == 3:
    config["source_rank"] = 2  # fixed: pass
weights = torch.full((8,), float(rank))


def synchronise(weights):
    dist.broadcast(weights, src=config["source_rank"])  # <- here


for _ in range(config["num_steps"]):
    synchronise(weights)
print("rank", rank, weights[0].item())
dist.destroy_process_group()
