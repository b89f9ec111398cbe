"""Rank 0 hands a configuration out; the others hand theirs in."""
# ranks: 3
# finding: mismatch operation
# out of line: 0
# cause: rank-conditional-call

import torch.distributed as dist

dist.init_process_group("gloo")
config = {"lr": 0.1, "rank": dist.get_rank()}
if dist.get_rank() == 0:  # fixed: if True:
    box = [config]
    dist.broadcast_object_list(box, src=0)  # <- here
else:
    dist.gather_object(config, None, dst=0)  # <- here
print("rank", dist.get_rank(), "done")
dist.destroy_process_group()
