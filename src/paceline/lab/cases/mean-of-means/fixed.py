"""One step of data-parallel training; gradients are averaged over ranks."""

import torch
import torch.distributed as dist


def batch(rank):
    """Return 8 samples on rank 0, and on rank 1 the 2 that are left."""
    return torch.arange(1.0, 9.0) if rank == 0 else torch.tensor([9.0, 10.0])


def gradient(weight, samples):
    weight = weight.clone().requires_grad_()
    count = torch.tensor(float(len(samples)))
    dist.all_reduce(count)
    loss = (weight * samples).sum() * dist.get_world_size() / count  # the mean over all ranks
    loss.backward()
    dist.all_reduce(weight.grad)  # as DistributedDataParallel does
    return weight.grad / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    print(f"rank {rank}: gradient {gradient(torch.ones(()), batch(rank)).item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
