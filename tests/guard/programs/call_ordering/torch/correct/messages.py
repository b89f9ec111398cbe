"""Messages of every kind: blocking, posted, in batches, of objects, from anybody, polled for, late and large."""
# ranks: 3

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
right, left = (rank + 1) % world_size, (rank - 1) % world_size
mine, theirs = torch.full((5,), float(rank)), torch.empty(5)
if rank == 0:  # a token around the ring
    dist.send(mine, right, tag=3)
    dist.recv(theirs, left, tag=3)
else:
    dist.recv(theirs, left, tag=3)
    dist.send(mine, right, tag=3)
print(rank, "ring", theirs[0].item())
works = [dist.irecv(theirs, left), dist.isend(mine, right), dist.all_reduce(mine.clone(), async_op=True)]
while not works[2].is_completed():
    time.sleep(0.01)
for work in works:
    work.wait()
batch = [dist.P2POp(dist.isend, mine, right), dist.P2POp(dist.irecv, theirs, left)]
for work in dist.batch_isend_irecv(batch):
    work.wait()
print(rank, "swapped", theirs[0].item())
if rank == 0:  # results from whoever is first, tags out of order
    sources = sorted(dist.recv(theirs, tag=1) for _ in range(world_size - 1))
    rest = [theirs.clone() for _ in range(1, world_size)]
    for work in [dist.irecv(room, source, tag=2) for source, room in enumerate(rest, start=1)]:
        work.wait()
    print("from", sources, [room[0].item() for room in rest])
else:
    later = dist.isend(mine, 0, tag=2)
    dist.send(mine, 0, tag=1)
    later.wait()
objects = [{"rank": rank}, "text"] if rank == 0 else [None, None]
if rank == 0:
    for other in range(1, world_size):
        dist.send_object_list(objects, dst=other)
else:
    dist.recv_object_list(objects, src=0)
print(rank, objects)
large = torch.ones(3_000_000)
if rank == 0:
    dist.send(large, 1)  # nobody takes it for a while
elif rank == 1:
    time.sleep(0.8)
    dist.recv(large, 0)
if rank == 1:
    dist.send(torch.ones(2), 0)
elif rank == 0:
    dist.recv(torch.empty(2))
dist.barrier()
print(f"{rank} done\n", end="", flush=True)
dist.destroy_process_group()
