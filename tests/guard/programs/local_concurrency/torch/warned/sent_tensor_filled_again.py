"""One tensor is sent in every step and filled again before the wait."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 0
# says: isend

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
part = torch.zeros(1000)
for step in range(3):
    if dist.get_rank() == 0:
        work = dist.isend(part, 1)  # <- here
        # fixed: work.wait()
        part.fill_(step)
        work.wait()  # fixed: pass
    else:
        dist.recv(part, 0)
dist.destroy_process_group()
