"""One rank destroys its group after training and uses it once more for its own log."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]
value = torch.ones(1)
dist.all_reduce(value, group=alone)
dist.barrier()
if dist.get_rank() == 1:
    dist.destroy_process_group(alone)  # fixed: pass
dist.all_reduce(value, group=alone)  # <- here
dist.barrier()
dist.destroy_process_group()
