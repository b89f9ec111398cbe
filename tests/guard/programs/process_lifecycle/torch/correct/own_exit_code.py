"""All ranks end with code 3; rank 0 reads what is given to it, and all speak on both channels."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
words = [sys.stdin.read().split() if rank == 0 else None]
dist.broadcast_object_list(words, src=0)
print(f"rank {rank} {words[0]}\n", end="", flush=True)
print(f"rank {rank} speaks\n", end="", file=sys.stderr)
total = torch.ones(1)
dist.all_reduce(total)
dist.destroy_process_group()
sys.exit(3)
