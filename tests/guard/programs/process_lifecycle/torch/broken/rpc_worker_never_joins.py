"""A worker without data of its own ends before it has joined the others."""
# ranks: 3
# launcher: own
# finding: peer-gone
# out of line: 1
# cause: early-exit
# says: wait for it in init_rpc

import os
import sys

import torch
import torch.distributed.rpc as rpc

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
shards = [torch.arange(4), torch.arange(0), torch.arange(4)]
if not len(shards[rank]):  # fixed: if False:
    sys.exit(0)  # <- here
rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
print(rpc.rpc_sync("worker0", torch.add, args=(shards[rank], 1)))
rpc.shutdown()
