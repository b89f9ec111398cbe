"""Works are kept in lists, waited for out of order and more than once, some by another function."""
# ranks: 2

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
other = 1 - dist.get_rank()


def finish(works):
    for work in works:
        work.wait()


tensors = [torch.full((4,), float(number)) for number in range(6)]
works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
finish(reversed(works))
finish(works)
room = torch.empty(3)
exchange = [dist.P2POp(dist.isend, torch.ones(3), other), dist.P2POp(dist.irecv, room, other)]
finish(dist.batch_isend_irecv(exchange))
dist.barrier(async_op=True).wait()
print("rank", dist.get_rank(), sum(tensor.sum().item() for tensor in tensors), room.tolist())
dist.destroy_process_group()
