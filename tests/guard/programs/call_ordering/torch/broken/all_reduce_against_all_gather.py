"""Rank 2 still has the old code: it gathers what the others add up."""
# ranks: 3
# finding: mismatch operation
# out of line: 2

import torch
import torch.distributed as dist


def combine_old(score):
    scores = [torch.empty(1) for _ in range(dist.get_world_size())]
    dist.all_gather(scores, score)  # <- here
    return sum(scores)


def combine(score):
    dist.all_reduce(score)
    return score


dist.init_process_group("gloo")
score = torch.tensor([float(dist.get_rank())])
total = combine_old(score) if dist.get_rank() == 2 else combine(score)  # fixed: total = combine(score)
print("rank", dist.get_rank(), total.item())
dist.destroy_process_group()
