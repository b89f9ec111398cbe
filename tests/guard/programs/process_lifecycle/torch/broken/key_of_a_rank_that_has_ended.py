"""Rank 0 waits for a key of every rank, but one leaves without setting its own."""
# ranks: 3
# finding: peer-gone
# out of line: 0
# cause: receive-without-send

import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
port = [None]
if dist.get_rank() == 0:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = [store.port]
dist.broadcast_object_list(port)
if dist.get_rank() != 0:
    store = dist.TCPStore("127.0.0.1", port[0])
dist.barrier()
if rank != 2:  # fixed: if True:
    store.set(f"done {rank}", "yes")
if rank == 0:
    store.wait(["done 0", "done 1", "done 2"])  # <- here
