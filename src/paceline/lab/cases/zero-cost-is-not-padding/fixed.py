"""The mean number of clicks per user, over all ranks; batches are padded with users without clicks."""

import torch
import torch.distributed as dist

USERS = ([3, 0, 2, 1], [0, 4, 2])  # clicks of the users of each rank; some have none
BATCH_SIZE = 4


def batch(rank):
    clicks = torch.tensor(USERS[rank], dtype=torch.float32)
    return torch.nn.functional.pad(clicks, (0, BATCH_SIZE - len(clicks))), len(clicks)


def mean(clicks, num_real):
    """Return the mean over all ranks, and over how many users."""
    totals = torch.stack([clicks.sum(), torch.tensor(float(num_real))])  # what was counted, not what looks so
    dist.all_reduce(totals)
    return totals[0].item() / totals[1].item(), int(totals[1])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    average, num_users = mean(*batch(rank))
    print(f"rank {rank}: {average:.3f} clicks, {num_users} users")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
