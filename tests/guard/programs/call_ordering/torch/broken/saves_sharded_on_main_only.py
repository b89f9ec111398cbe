"""The state is gathered to be saved, but only the main process calls the gather."""
# ranks: 2
# finding: mismatch operation | peer-gone
# out of line: 0 | 0 1
# cause: rank-conditional-call
# says: is_main

import torch
import torch.distributed as dist


def is_main_process():
    return dist.get_rank() == 0


def gather_state(state):
    shards = [None] * dist.get_world_size()
    dist.all_gather_object(shards, state)  # <- here
    return shards


def train(steps):
    state = {"weights": torch.zeros(4)}
    for _step in range(steps):
        gradient = torch.ones(4)
        dist.all_reduce(gradient)
        state["weights"] -= gradient
    if is_main_process():  # fixed: if True:
        everything = gather_state(state)
        print("saved", len(everything))


dist.init_process_group("gloo")
train(6)
dist.barrier()
dist.destroy_process_group()
