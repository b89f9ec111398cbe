"""A worker leaves when its own queue is empty; another still calls a function there."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: early-exit
# says: rpc_sync at

import os
import time

import torch.distributed.rpc as rpc

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def steal(queue):
    return queue[: len(queue) // 2]


rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
queue = list(range(4)) if rank == 0 else []
if rank == 1 and not queue:
    os._exit(0)  # <- here # fixed: pass
if rank == 0:
    time.sleep(1.0)
    print(rpc.rpc_sync("worker1", steal, args=(queue,)))  # <- here
rpc.shutdown()
