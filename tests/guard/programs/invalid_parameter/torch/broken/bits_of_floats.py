"""One rank combines floats of its own by a bitwise operator, which does not exist for them."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: exception

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
alone = [dist.new_group([member]) for member in range(2)][rank]
dtype = torch.float32 if rank == 0 else torch.int64  # fixed: dtype = torch.int64
flags = torch.ones(2, dtype=dtype)
dist.all_reduce(flags, op=dist.ReduceOp.BAND, group=alone)  # <- here
dist.barrier()
dist.destroy_process_group()
