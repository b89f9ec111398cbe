"""One rank raises, and the script prints exceptions in its own manner, as rich.traceback does."""
# ranks: 2
# finding: peer-gone
# out of line: 1
# cause: exception
# launcher: torchrun

import sys
import traceback

import torch
import torch.distributed as dist


def show(*error):
    traceback.print_exception(*error)


sys.excepthook = show
dist.init_process_group("gloo")
rank = dist.get_rank()
dist.barrier()
if rank == 1:
    raise ValueError("bad batch")  # <- here  # fixed: pass
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
