"""The last rank sends on to a rank that is not there."""
# ranks: 2
# finding: argument source
# out of line: 1
# cause: no-such-rank

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
token = torch.zeros(1)
if rank > 0:
    dist.recv(token, src=rank - 1)
# fixed: if rank + 1 < dist.get_world_size():
dist.send(token + 1, dst=rank + 1)  # <- here  # fixed:     dist.send(token + 1, dst=rank + 1)
print("rank", rank, token.item())
dist.destroy_process_group()
