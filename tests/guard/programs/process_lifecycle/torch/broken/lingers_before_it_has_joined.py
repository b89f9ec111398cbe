"""A rank without data ends before it has joined, and what it has opened takes for ever to close."""
# ranks: 3
# launcher: own
# finding: peer-gone
# out of line: 2
# cause: early-exit

import os
import sys
import time

import torch.distributed as dist


class Client:
    """A connection that waits for an answer when it is dropped."""

    def __del__(self) -> None:
        while True:
            time.sleep(1)


rank = int(os.environ["RANK"])
shards = [[1, 2], [3, 4], []]
if not shards[rank]:  # fixed: if False:
    client = Client()
    sys.exit(0)  # <- here
dist.init_process_group("gloo")
dist.barrier()
dist.destroy_process_group()
