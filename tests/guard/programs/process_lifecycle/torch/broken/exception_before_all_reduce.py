"""One rank cannot read its shard; the others wait for its gradient."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception
# launcher: module

import torch
import torch.distributed as dist


def read(rank):
    sizes = {0: 10}  # fixed: sizes = {0: 10, 1: 10}
    return torch.ones(sizes[rank])  # <- here


dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
loss = read(rank).sum()
dist.all_reduce(loss)
print("rank", rank, loss.item())
dist.destroy_process_group()
