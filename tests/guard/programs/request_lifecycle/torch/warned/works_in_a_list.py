"""Works are collected and never waited for."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0 1

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
gradients = [torch.ones(4) for _ in range(12)]
works = [dist.all_reduce(gradient, async_op=True) for gradient in gradients]  # <- here
# fixed: [work.wait() for work in works]
dist.barrier()
dist.destroy_process_group()
