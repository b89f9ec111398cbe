"""Gathers sample ids and scores from all ranks, in one message."""

import torch
import torch.distributed as dist

from paceline import Batch, connect
from paceline.loader import gather_batches

FIRST = 2**24  # ids of the second shard of a large dataset


def batch(rank):
    ids = FIRST + 4 * rank + torch.arange(4)
    return ids, torch.rand(4, generator=torch.Generator().manual_seed(rank))


def gather(ids, scores):
    """Return the ids of all ranks."""
    mine = Batch({"id": ids, "score": scores}, batch_size=len(ids))
    return gather_batches(connect(), mine)["id"]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank}: {(gather(*batch(rank)) - FIRST).tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
