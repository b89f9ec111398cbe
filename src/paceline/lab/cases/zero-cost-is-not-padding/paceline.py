"""The mean number of clicks per user, over all ranks; batches are padded with users without clicks."""

import torch
import torch.distributed as dist

from paceline import Batch

USERS = ([3, 0, 2, 1], [0, 4, 2])  # clicks of the users of each rank; some have none
BATCH_SIZE = 4


def batch(rank):
    clicks = torch.tensor(USERS[rank], dtype=torch.float32)
    return Batch({"clicks": clicks}, batch_size=len(clicks)).pad_to(BATCH_SIZE)


def mean(mine):
    """Return the mean over all ranks, and over how many users."""
    totals = torch.tensor([mine.real("clicks").sum(), mine.num_real])
    dist.all_reduce(totals)
    return totals[0].item() / totals[1].item(), int(totals[1])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    average, num_users = mean(batch(rank))
    print(f"rank {rank}: {average:.3f} clicks, {num_users} users")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
