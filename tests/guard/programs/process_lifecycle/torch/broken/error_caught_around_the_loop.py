"""An exception ends the loop of one rank; the script catches it, says so, and comes to its end."""
# ranks: 3
# finding: peer-gone
# out of line: 2
# cause: uneven-steps
# says: find out which exception was caught around the loop

import torch
import torch.distributed as dist


def train():
    for step in range(5):
        if dist.get_rank() == 2 and step == 2:
            raise FileNotFoundError("shard-2.bin")  # fixed: pass
        dist.all_reduce(torch.ones(2))  # <- here


dist.init_process_group("gloo")
try:
    train()
except FileNotFoundError as error:
    print("training failed:", error)
print("rank", dist.get_rank(), "done")
