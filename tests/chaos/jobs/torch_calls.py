"""Ranks of torch.distributed that add up and pass numbers around."""

from __future__ import annotations

from tests.chaos.injector import reach

reach("import")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.set_num_threads(1)
reach("init")
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
for step in range(12):
    total = torch.full((4,), float(rank + step))
    dist.all_reduce(total)
    assert total[0] == sum(other + step for other in range(size))
    reach("between calls", step)
    if step % 3 == 0:
        dist.broadcast(total, src=step % size)
    reach("inside a collective", step)
    dist.barrier()
dist.destroy_process_group()
print("rank", rank, "ends well", flush=True)
reach("in finalize")
