"""Times watched and unwatched calls of torch alternately, in one job under the guard; rank 0 prints JSON.

With several ranks they go over gloo. A thread that waits there sleeps, so its processor time is that of the call alone.
With one rank they go to torch's fake backend, which does nothing at all. Beside the guard stands a layer of plain
Python that watches nothing: what it costs on gloo is what any Python costs there.
"""

import json
import os

import torch
import torch.distributed as dist
from alternation import added
from around_calls import layered
from torch.testing._internal.distributed.fake_pg import FakeStore

from paceline.guard.rank.torch.torch_module import WATCH

IS_ALONE = os.environ["WORLD_SIZE"] == "1"
PAIRS, CALLS = 61, 400 if IS_ALONE else 40
torch.set_num_threads(1)
if IS_ALONE:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
else:
    dist.init_process_group("gloo")
(watch,) = WATCH
watch.world.call_flags = 0  # calls on the fake backend, which is not known, count as those of one that blocks


def set_inside(depth):
    """Have the calls of this thread taken for those that a watched function makes."""
    watch.inside.depth = depth


def measure_layer(function, *arguments):
    """Return what a layer of plain Python adds to a function that is not watched."""
    set_inside(1)
    try:
        bare, layer = function.__wrapped__, layered(function.__wrapped__)
        return added(lambda: layer(*arguments), lambda: bare(*arguments), calls=CALLS, pairs=PAIRS, meet=bare_barrier)
    finally:
        set_inside(0)


def measure(function, *arguments, calls=CALLS):
    """Return what watching a function adds."""
    return added(
        lambda: function(*arguments), lambda: function.__wrapped__(*arguments), calls=calls, pairs=PAIRS,
        meet=dist.barrier, around_plain=(lambda: set_inside(1), lambda: set_inside(0)),
    )  # fmt: skip


bare_barrier = dist.barrier.__wrapped__
figures = {"barrier": measure(dist.barrier)}
for name, num_bytes in (("8 B", 8), ("1 KiB", 1024), ("1 MiB", 1 << 20)):
    tensor = torch.zeros(num_bytes // 8, dtype=torch.float64)
    figures[f"all-reduce {name}"] = measure(dist.all_reduce, tensor, calls=CALLS if num_bytes < 1 << 20 else 4)
figures["broadcast 8 B"] = measure(dist.broadcast, torch.zeros(1), 0)
figures["all-reduce 8 B in a layer of Python"] = measure_layer(dist.all_reduce, torch.zeros(1, dtype=torch.float64))
if dist.get_rank() == 0:
    print(json.dumps(figures), flush=True)
dist.barrier()
dist.destroy_process_group()
