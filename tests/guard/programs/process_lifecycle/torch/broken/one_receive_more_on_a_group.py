"""Rank 0 sends twice on a group of its own and ends; rank 1 receives three times."""
# ranks: 2
# finding: peer-gone
# out of line: 0
# cause: early-exit
# says: after it sent 2 messages

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
side = dist.new_group([0, 1])
tensor = torch.zeros(2)
if dist.get_rank() == 0:
    for _ in range(2):  # fixed: for _ in range(3):
        dist.send(tensor, dst=1, group=side)
else:
    for _ in range(3):
        dist.recv(tensor, src=0, group=side)  # <- here
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
