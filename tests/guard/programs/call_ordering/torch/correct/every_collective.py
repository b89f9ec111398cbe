"""Every public collective, called at once and posted, also of objects, in inference mode, and many in a row."""
# ranks: 3

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
ranks = range(world_size)


def run(name, function, *args, **named):
    function(*args, **named)
    work = function(*args, **named, async_op=True)
    work.wait()
    print(rank, name)


one, four = torch.ones(1), torch.ones(4)
parts, box = [torch.zeros(4) for _ in ranks], torch.zeros(4 * world_size)
run("all_reduce", dist.all_reduce, four.clone())
run("all_reduce of another shape", dist.all_reduce, torch.ones(2, 6) if rank else torch.ones(3, 4), dist.ReduceOp.MAX)
run("broadcast", dist.broadcast, four.clone(), src=1)
run("reduce", dist.reduce, four.clone(), dst=world_size - 1, op=dist.ReduceOp.PRODUCT)
run("all_gather", dist.all_gather, parts, four)
run("all_gather_into_tensor", getattr(dist, "all_gather_single", dist.all_gather_into_tensor), box, four)
run("gather", dist.gather, four, parts if rank == 0 else None, dst=0)
run("scatter", dist.scatter, torch.zeros(4), parts if rank == 1 else None, src=1)
run("reduce_scatter", dist.reduce_scatter, torch.zeros(4), [four.clone() for _ in ranks])
run("reduce_scatter_tensor", getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor), torch.zeros(4), box)
run("all_to_all_single", dist.all_to_all_single, torch.zeros(world_size), torch.ones(world_size))
run("all_to_all", dist.all_to_all, [torch.zeros(1) for _ in ranks], [one for _ in ranks])
run("barrier", dist.barrier)
sent, received = [rank + 1] * world_size, [other + 1 for other in ranks]
out, given = torch.zeros(sum(received)), torch.ones(sum(sent))
dist.all_to_all_single(out, given, received, sent)
if dist.get_backend() == "gloo":  # no other backend has it
    dist.monitored_barrier()
objects = [None] * world_size
dist.all_gather_object(objects, {"rank": rank, "text": "x" * 100 * rank})
dist.gather_object(rank, objects if rank == 0 else None, dst=0)
dist.broadcast_object_list(objects, src=0)
dist.scatter_object_list([None], objects if rank == 0 else None, src=0)
with torch.inference_mode():
    dist.all_reduce(torch.ones(3))
pending = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(10)]
for _ in range(500):
    dist.all_reduce(one)
for work in pending:
    work.wait()
print(rank, objects, len(pending))
dist.destroy_process_group()
