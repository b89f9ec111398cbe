"""DistributedDataParallel with one batch less on the last rank, which then ends."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: uneven-steps

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
num_samples = 32 if rank == world_size - 1 else 40  # fixed: num_samples = 32
for (inputs,) in DataLoader(TensorDataset(torch.randn(num_samples, 4)), batch_size=8):
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()  # <- here
    optimizer.step()
print("rank", rank, "trained")
del model  # a group that its model outlives may hang at exit (torch 2.13)
model = None  # a group that its model outlives may hang at exit (torch 2.13)
dist.destroy_process_group()
