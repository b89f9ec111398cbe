"""Keys come late, while other ranks are in a collective or wait for them too."""
# ranks: 3

import time

import torch
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
if rank == 1:
    time.sleep(1.2)
    store.set("late", "word")
else:
    print(rank, store.get("late"))
if rank == 0:
    time.sleep(0.8)
    store.set("for rank 2", "word")
elif rank == 2:
    store.wait(["for rank 2"])
total = torch.ones(1)
dist.all_reduce(total)
print(rank, total)
dist.barrier()  # rank 0 keeps the store
dist.destroy_process_group()
