"""Gathers the ids of all ranks and counts them."""

import importlib
import sys
from collections import Counter

import torch.distributed as dist

program = importlib.import_module(sys.argv[1])
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
shares = [None] * world_size
dist.all_gather_object(shares, program.share(rank, world_size))
counts = Counter(sample for share in shares for sample in share)
repeated = sorted(sample for sample, count in counts.items() if count > 1)
if rank == 0 and (repeated or len(counts) != program.NUM_SAMPLES):
    print(f"seen: {counts.total()} samples counted, {program.NUM_SAMPLES} are there; repeated: {repeated}")
dist.destroy_process_group()
