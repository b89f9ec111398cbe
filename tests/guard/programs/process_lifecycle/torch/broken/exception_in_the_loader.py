"""A worker's exception comes out of the loader on one rank, in the third batch."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: exception
# says: shard 2 is corrupt

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset


class Shards(IterableDataset):
    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        for number in range(6):
            if self.rank == 1 and number == 2:
                raise ValueError("shard 2 is corrupt")  # <- here  # fixed: pass
            yield torch.ones(4)


dist.init_process_group("gloo")
total = torch.zeros(4)
for batch in DataLoader(Shards(dist.get_rank()), batch_size=None):
    dist.all_reduce(batch)
    total += batch
print("rank", dist.get_rank(), total[0].item())
dist.destroy_process_group()
