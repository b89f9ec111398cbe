"""Groups of some ranks, of halves, one in another, used by threads, destroyed, and the world made again."""
# ranks: 4

import os
import threading

import torch
import torch.distributed as dist

for attempt in range(2):
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    place = f"file://{os.path.abspath('store')}-{attempt}"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=world_size)
    value = torch.ones(1)
    first = dist.new_group([0, 1])
    rest = dist.new_group(list(range(2, world_size)))
    dist.all_reduce(value, group=first if rank < 2 else rest)
    if rank < 2:
        for _ in range(3):  # nobody else takes part
            dist.barrier(group=first)
        dist.broadcast(value, src=1, group=first)
    mine, halves = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    dist.all_reduce(value, group=mine)
    dist.broadcast(value, group_src=1, group=mine)
    pairs, _ = dist.new_subgroups(group_size=2)
    dist.all_reduce(value, group=pairs)
    local = dist.new_group([rank - rank % 2, rank - rank % 2 + 1], use_local_synchronization=True)
    dist.all_reduce(value, group=local)
    if rank % 2:
        dist.send(value, group=local, group_dst=0)
    else:
        dist.recv(value, group=local, group_src=1)
    own = [dist.new_group() for _ in range(2)]

    def work(group, rounds):
        for _ in range(rounds):
            dist.all_reduce(torch.ones(4), group=group)
            dist.barrier(group=group)

    threads = [threading.Thread(target=work, args=(group, 10 + 5 * at)) for at, group in enumerate(own)]
    for thread in threads if rank % 2 else reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    dist.destroy_process_group(own[0])
    dist.all_reduce(value)
    print(attempt, rank, value.item(), len(halves))
    dist.barrier()
    dist.destroy_process_group()
