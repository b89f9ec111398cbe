"""Accuracy over 10 samples on 3 ranks."""

import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler

NUM_SAMPLES = 10
IS_CORRECT = [False, False] + [True] * 8  # the model fails on the first two


def share(rank, world_size):
    return list(DistributedSampler(range(NUM_SAMPLES), world_size, rank, shuffle=False))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mine = share(rank, dist.get_world_size())
    totals = torch.tensor([sum(IS_CORRECT[sample] for sample in mine), len(mine)])
    dist.all_reduce(totals)
    print(f"rank {rank}: accuracy {totals[0] / totals[1]:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
