"""Each rank takes every third sample; a data set of 31 gives rank 0 one batch more, and DDP waits for the others."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: uneven-steps

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset


def main():
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    data = TensorDataset(torch.randn(31, 4), torch.randn(31, 1))
    num_samples = len(data)  # fixed: num_samples = len(data) // world_size * world_size
    mine = Subset(data, list(range(rank, num_samples, world_size)))
    loader = DataLoader(mine, batch_size=2)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()  # <- here
        optimizer.step()
    dist.barrier()
    print("rank", rank, "trained")
    del model  # a group that its model outlives may hang at exit (torch 2.13)
    dist.destroy_process_group()


main()
