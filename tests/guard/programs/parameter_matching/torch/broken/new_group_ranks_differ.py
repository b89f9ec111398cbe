"""Every rank makes a group of itself and its neighbour: the lists differ."""
# ranks: 4
# finding: mismatch communicator
# out of line: 0 1 2 3
# cause: group

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
first = rank - rank % 2
# fixed: pairs = [dist.new_group([one, one + 1]) for one in range(0, world_size, 2)]
pair = dist.new_group([first, first + 1])  # <- here  # fixed: pair = pairs[rank // 2]
value = torch.ones(1)
dist.all_reduce(value, group=pair)
print("rank", rank, value.item())
dist.barrier()  # ranks of the other pair may still be connecting
dist.destroy_process_group()
