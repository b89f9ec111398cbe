"""The average is taken before the sum has arrived."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 0 1
# says: all_reduce

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
gradient = torch.ones(64)
work = dist.all_reduce(gradient, async_op=True)  # <- here
# fixed: work.wait()
gradient /= dist.get_world_size()
work.wait()
dist.destroy_process_group()
