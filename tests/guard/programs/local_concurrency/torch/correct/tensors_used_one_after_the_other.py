"""Tensors are shared by works in every way that is allowed."""
# ranks: 2

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
other = 1 - rank
flat = torch.zeros(40)

for step in range(4):
    # parts of one storage: what is not sent may be written to
    works = [dist.all_reduce(flat[:10], async_op=True), dist.all_reduce(flat[10:20], async_op=True)]
    flat[20:] = step
    [work.wait() for work in works]
    flat += 1

    # two that only read
    theirs = torch.empty(2, 40)
    works = [dist.isend(flat, other, tag=1), dist.isend(flat[:20], other, tag=2)]
    works += [dist.irecv(theirs[0], other, tag=1), dist.irecv(theirs[1, :20], other, tag=2)]
    dist.all_reduce(torch.ones(3))
    dist.broadcast(flat.clone(), src=0)
    [work.wait() for work in works]
    flat.mul_(0.5)

    # the root reads
    work = dist.broadcast(flat, src=0, async_op=True)
    if rank == 0:
        dist.send(flat, 1)
    else:
        dist.recv(torch.empty(40), 0)
    work.wait()

    # one's own part lies among those of all
    parts = [torch.ones(4), torch.ones(4)]
    dist.all_gather(parts, parts[rank], async_op=True).wait()
    gathered = torch.ones(8)
    dist.all_gather_into_tensor(gathered, gathered[4 * rank : 4 * rank + 4], async_op=True).wait()
    dist.reduce(gathered, dst=0, async_op=True).wait()
    work = dist.all_to_all_single(torch.empty(8), gathered, async_op=True)
    gathered.sum()
    work.wait()
    gathered.zero_()

    # other ways to know that it is complete
    work = dist.all_reduce(gathered, async_op=True)
    while not work.is_completed():
        pass
    gathered += 1
    work.wait()
    work = dist.all_reduce(gathered, async_op=True)
    work.get_future().wait()
    gathered += 1

    with torch.inference_mode():
        work = dist.all_reduce(torch.ones(3), async_op=True)
        work.wait()
    strided = torch.zeros(6, 2)
    works = [dist.isend(strided[:2, 0].contiguous(), other), dist.irecv(strided[0], other)]
    [work.wait() for work in works]
print("rank", rank, flat.sum().item())
dist.destroy_process_group()
