"""Rank 0 sets a key by another name than the one that the others wait for."""
# ranks: 3
# finding: deadlock
# out of line: 1 2
# cause: receive-without-send
# says: a key that nobody has set

import torch.distributed as dist

dist.init_process_group("gloo")
port = [None]
if dist.get_rank() == 0:
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = [store.port]
dist.broadcast_object_list(port)
if dist.get_rank() != 0:
    store = dist.TCPStore("127.0.0.1", port[0])
if dist.get_rank() == 0:
    store.set("epochs", "3")  # fixed: store.set("epoch", "3")
else:
    print("epoch", store.get("epoch"))  # <- here
dist.barrier()
dist.destroy_process_group()
