"""Only those that have called others shut down; the server comes to its end, and nobody can call it any more."""
# ranks: 3
# finding: peer-gone
# out of line: 0
# cause: rank-conditional-call
# says: rpc.shutdown

import os

import torch
import torch.distributed.rpc as rpc

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
if rank != 0:
    print(rpc.rpc_sync(f"worker{3 - rank}", torch.add, args=(torch.ones(2), rank)))
if rank != 0:  # fixed: if True:
    rpc.shutdown()  # <- here
