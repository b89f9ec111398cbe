"""A helper makes process groups that nobody destroys, and several lines call it."""
# ranks: 2
# not found: handles are counted by the whole path to the line that makes them, and each path makes few

import torch
import torch.distributed as dist

dist.init_process_group("gloo")


def total(value):
    group = dist.new_group([0, 1])  # <- here
    dist.all_reduce(value, group=group)
    # fixed: dist.destroy_process_group(group)
    return value


loss = accuracy = norm = torch.ones(1)
for _ in range(12):
    loss = total(loss)
    accuracy = total(accuracy)
    norm = total(norm)
dist.destroy_process_group()
