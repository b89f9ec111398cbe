"""Uneven splits and lists of tensors that fit by pairs, with zeros, other types for pairs of their own, and groups."""
# ranks: 3

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
pair = dist.new_group([0, world_size - 1])


def exchange(group, me, size):
    table = [[(2 * sender + receiver) % 3 for receiver in range(size)] for sender in range(size)]
    sends, expects = table[me], [row[me] for row in table]
    taken = torch.zeros(sum(expects), 2)
    for async_op in (False, True):
        work = dist.all_to_all_single(taken, torch.ones(sum(sends), 2), expects, sends, group=group, async_op=async_op)
        if work is not None:
            work.wait()
    dist.all_to_all_single(torch.zeros(size), torch.ones(size), [1] * size, None, group=group)
    dist.all_to_all_single(torch.zeros(size), torch.ones(size), group=group)
    parts = [torch.zeros(5) for _ in range(size)]  # gloo wants the tensors of one list alike
    dist.all_to_all(parts, [torch.ones(5) for _ in range(size)], group=group)
    even = [torch.zeros(3) for _ in range(size)]
    dist.all_gather(even, torch.full((3,), float(me)), group=group)
    root = dist.get_global_rank(group, size - 1) if group is not None else size - 1
    dist.gather(torch.ones(2), [torch.zeros(2) for _ in range(size)] if me == size - 1 else None, dst=root, group=group)
    dist.scatter(torch.ones(2), [torch.ones(2) for _ in range(size)] if me == size - 1 else None, src=root, group=group)
    mine = torch.zeros(me + 1)
    dist.reduce_scatter(mine, [torch.ones(other + 1) for other in range(size)], group=group)
    return float(taken.sum() + sum(part.sum() for part in parts) + mine.sum())


for _ in range(70):  # more often than the board has rows
    total = exchange(None, rank, world_size)
if rank in (0, world_size - 1):
    total += exchange(pair, 0 if rank == 0 else 1, 2)
print(f"{rank} {total}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
