"""A plain script that makes its ranks by torch.multiprocessing, two jobs one after the other."""

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank, world_size, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    value = torch.ones(1)
    for _ in range(3 + world_size):
        dist.all_reduce(value)
    print(rank, "of", world_size, value.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    import os

    mp.spawn(train, args=(2, os.path.abspath("first")), nprocs=2)
    mp.start_processes(train, args=(3, os.path.abspath("second")), nprocs=3, start_method="fork")
