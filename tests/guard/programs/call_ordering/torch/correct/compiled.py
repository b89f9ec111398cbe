"""Functions with collectives, compiled into one graph each, and one that has to be left for a collective."""

import warnings

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

warnings.simplefilter("error")
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
group = dist.new_group(list(range(world_size)))


def all_gather(values):
    room = torch.empty(2 * world_size)
    dist.all_gather_into_tensor(room, values)
    return room.sum()


def reduce_scatter(values):
    room = torch.empty(2)
    dist.reduce_scatter_tensor(room, values.repeat(world_size))
    return room.sum()


def all_reduce(values):
    twice = values * 2
    dist.all_reduce(twice)
    return twice.sum()


def all_reduce_in_group(values):
    most = values + rank
    dist.all_reduce(most, op=dist.ReduceOp.MAX, group=group)
    return most.sum()


def all_to_all(values):
    room = torch.empty(2 * world_size)
    dist.all_to_all_single(room, values.repeat(world_size))
    return room.sum()


def functional_reduce(values):
    return functional.all_reduce(values, "sum", dist.group.WORLD).sum()


def functional_gather(values):
    return functional.all_gather_tensor(values, 0, group).sum()


def broadcast(values):
    mine = values + rank
    dist.broadcast(mine, src=1)
    return mine.sum()


whole = (all_reduce, all_gather, reduce_scatter, all_reduce_in_group, all_to_all, functional_reduce, functional_gather)
for function in whole:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    results = [compiled(torch.ones(2)).item() for _ in range(3)]
    print(f"{rank} {function.__name__} {results}\n", end="", flush=True)
torch._dynamo.reset()
warnings.simplefilter("ignore")
results = [torch.compile(broadcast, backend="aot_eager")(torch.ones(2)).item() for _ in range(3)]
print(f"{rank} broadcast {results} {functional_reduce(torch.ones(2)).item()}\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
