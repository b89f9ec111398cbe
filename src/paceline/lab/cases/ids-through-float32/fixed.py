"""Gathers sample ids and scores from all ranks, in one message."""

import torch
import torch.distributed as dist

FIRST = 2**24  # ids of the second shard of a large dataset


def batch(rank):
    ids = FIRST + 4 * rank + torch.arange(4)
    return ids, torch.rand(4, generator=torch.Generator().manual_seed(rank))


def gather(ids, scores):
    """Return the ids of all ranks."""
    message = torch.stack([ids, scores.double().view(torch.int64)])  # the bits of the scores, so that ids stay whole
    everyones = [torch.zeros_like(message) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, message)
    return torch.cat([rows[0] for rows in everyones]).long()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank}: {(gather(*batch(rank)) - FIRST).tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
