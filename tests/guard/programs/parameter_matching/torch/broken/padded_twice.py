"""A field that is already padded is padded again: 1408 elements where the others send 128."""
# ranks: 3
# finding: mismatch count
# out of line: 1
# cause: shape
# launcher: torchrun

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
field = torch.ones(128)
if rank == 1:
    field = torch.nn.functional.pad(field, (0, 128 * 10))  # the batch size, taken for a number of rows  # fixed: pass
gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
everything = torch.empty(world_size * len(field))
gather(everything, field)  # <- here
print("rank", rank, everything.sum().item())
dist.destroy_process_group()
