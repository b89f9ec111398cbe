"""Each rank gathers the labels that it has seen; how many there are depends on the data."""
# ranks: 3
# finding: mismatch count
# cause: shape

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
generator = torch.Generator().manual_seed(rank)
labels = torch.randint(0, 4 + 6 * rank, (64,), generator=generator)
for _epoch in range(3):
    seen = torch.unique(labels)
    # fixed: seen = torch.nn.functional.pad(seen, (0, 16 - len(seen)), value=-1)
    gathered = [torch.empty_like(seen) for _ in range(world_size)]
    dist.all_gather(gathered, seen)  # <- here
    vocabulary = torch.cat(gathered).unique()
print("rank", rank, len(vocabulary) > 0)
dist.destroy_process_group()
