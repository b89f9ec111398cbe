"""A function that one rank calls on another raises there; the exception comes out of the caller's wait."""
# ranks: 3
# finding: peer-gone
# out of line: 0
# cause: exception
# says: KeyError('head') in a function on worker1, at
# says: rpc_function_raises.py:18, or notify

import os

import torch.distributed.rpc as rpc

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
PARAMETERS = {"body": 1.0}  # fixed: PARAMETERS = {"body": 1.0, "head": 2.0}


def read_parameter(name):
    return PARAMETERS[name]


rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
if rank == 0:
    futures = [rpc.rpc_async("worker1", read_parameter, args=(name,)) for name in ("body", "head")]
    print([future.wait() for future in futures])  # <- here
rpc.shutdown()
