"""The first message is taken for that of the teacher; the student may be faster."""
# ranks: 3
# options: --strict=message-race
# warning: message-race
# warned ranks: 0

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
work = dist.isend(torch.full((2,), float(rank)), dst=0) if rank else None
dist.all_reduce(torch.ones(1))
if rank == 0:
    teacher, student = torch.zeros(2), torch.zeros(2)
    source = dist.recv(teacher)  # <- here  # fixed: source = dist.recv(teacher, src=1)
    dist.recv(student, src=3 - source)
else:
    work.wait()
dist.barrier()
dist.destroy_process_group()
