"""Empty tensors of the default dtype where others give integers: no elements have no type."""
# ranks: 3

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
right, left = (rank + 1) % world_size, (rank - 1) % world_size
work = dist.isend(torch.arange(4), right)
end = dist.isend(torch.empty(0), right)  # "that was all"
first, second = torch.full((4,), -1), torch.full((4,), -1)
dist.recv(first, left)
dist.recv(second, left)
work.wait()
end.wait()
nothing = torch.empty(0) if rank else torch.empty(0, dtype=torch.int64)
dist.all_gather([torch.empty_like(nothing) for _ in range(world_size)], nothing)
# ranks 0 and 1 exchange integers, the others keep floats to themselves
given = torch.full((2,), rank) if rank < 2 else torch.full((2,), float(rank))
partner = rank ^ 1 if rank < 2 else rank
taken, splits = torch.zeros_like(given), [2 if other == partner else 0 for other in range(world_size)]
dist.all_to_all_single(taken, given, splits, splits)
print(f"{rank} {first.tolist()} {second.tolist()} {taken.tolist()}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
