"""One rank gathers into a list that it made for another number of ranks."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: exception

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
num_parts = 2 if rank == 2 else 3  # fixed: num_parts = 3
parts = [torch.empty(2) for _ in range(num_parts)]
dist.all_gather(parts, torch.ones(2))  # <- here
dist.barrier()
dist.destroy_process_group()
