"""Gradients are reduced in buckets, the next one filled while the last one is under way."""
# ranks: 2

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
buckets, works = [torch.zeros(1000), torch.zeros(1000)], [None, None]
total = 0.0
for step in range(8):
    turn = step % 2
    if works[turn] is not None:
        works[turn].wait()
        total += buckets[turn].sum().item()
    buckets[turn] = torch.full((1000,), float(step))
    works[turn] = dist.all_reduce(buckets[turn], async_op=True)
for work in works:
    work.wait()
print("rank", dist.get_rank(), total)
dist.destroy_process_group()
