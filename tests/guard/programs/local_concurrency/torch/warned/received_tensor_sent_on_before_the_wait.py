"""What is received is broadcast before the wait."""
# ranks: 2
# warning: buffer-in-use
# warned ranks: 1
# says: broadcast at
# says: used the buffer of irecv at

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
part = torch.ones(5)
work = dist.isend(part.clone(), 1) if dist.get_rank() == 0 else dist.irecv(part, 0)
# fixed: work.wait()
dist.broadcast(part, src=1)  # <- here
work.wait()  # fixed: pass
dist.destroy_process_group()
