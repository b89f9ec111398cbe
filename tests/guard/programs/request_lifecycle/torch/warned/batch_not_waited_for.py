"""A batch of messages is started, and only the receives are waited for."""
# ranks: 2
# warning: request-never-completed
# warned ranks: 0 1
# says: isend

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
other = 1 - dist.get_rank()
theirs = torch.empty(2)
batch = [dist.P2POp(dist.isend, torch.ones(2), other), dist.P2POp(dist.irecv, theirs, other)]
works = dist.batch_isend_irecv(batch)  # <- here
works[1].wait()
# fixed: works[0].wait()
dist.barrier()
dist.destroy_process_group()
