"""Data-parallel training: unused parameters, no_sync, buffers, uneven inputs under join, sharded optimizer, hooks."""
# ranks: 2

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.left, self.right = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

    def forward(self, inputs, left):
        return (self.left if left else self.right)(self.norm(inputs))


def train(rank):
    torch.manual_seed(0)
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):  # ranks take different branches
        optimizer.zero_grad()
        model(torch.ones(3, 4) * step, (step + rank) % 2 == 0).mean().backward()
        optimizer.step()
    plain = DistributedDataParallel(torch.nn.Linear(4, 1))
    for step in range(6):
        if step % 3 < 2:
            with plain.no_sync():
                plain(torch.ones(3, 4)).mean().backward()
        else:
            plain(torch.ones(3, 4)).mean().backward()
    with plain.join():  # rank 0 has fewer batches, and it is right
        for _ in range(3 + 2 * rank):
            plain(torch.ones(3, 4)).mean().backward()
    sharded = ZeroRedundancyOptimizer(plain.parameters(), optimizer_class=torch.optim.Adam, lr=0.1)
    with Join([plain, sharded]):
        for _ in range(4 - rank):
            plain(torch.ones(3, 4)).mean().backward()
            sharded.step()
    sharded.consolidate_state_dict(to=0)
    hooked = DistributedDataParallel(torch.nn.Linear(4, 1))
    hooked.register_comm_hook(None, fp16_compress_hook)
    for _ in range(2):
        hooked(torch.ones(3, 4)).mean().backward()
    weights = torch.cat([weight.detach().flatten() for weight in plain.parameters()])
    dist.all_reduce(weights, op=dist.ReduceOp.MAX)
    print("rank", rank, [round(weight, 4) for weight in weights.tolist()])


dist.init_process_group("gloo")
train(dist.get_rank())
dist.destroy_process_group()
