"""Times watched and unwatched calls on gloo alternately, in one job under the guard.

From one run to the next a call on gloo takes hundreds of microseconds more or less, which hides what the guard adds.
Here blocks of calls through the watched functions and through those they stand for alternate within a process; rank 0
prints the median of the differences between neighbouring blocks, in microseconds per call, as JSON.
"""

import json
import statistics
import time

import torch
import torch.distributed as dist

from paceline.guard.rank.torch.torch_module import WATCH

PAIRS, CALLS = 150, 20
torch.set_num_threads(1)
dist.init_process_group("gloo")
inside = WATCH[0].inside
watched, plain = (dist.barrier, dist.all_reduce), (dist.barrier.__wrapped__, dist.all_reduce.__wrapped__)


def time_block(call, arguments, calls):
    """Return the time of one call, in microseconds."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        call(*arguments)
    return (time.perf_counter() - begin) / calls * 1e6


def time_plain(call, arguments, calls):
    """Return an unwatched version of a function; its inner calls must not be taken for direct use either."""
    dist.barrier()
    inside.depth = 1
    try:
        begin = time.perf_counter()
        for _ in range(calls):
            call(*arguments)
        return (time.perf_counter() - begin) / calls * 1e6
    finally:
        inside.depth = 0


def difference(which, arguments, calls=CALLS):
    """Return how much longer watched calls take, and the uncertainty of that difference."""
    found = []
    for pair in range(PAIRS):
        if pair % 2:
            with_guard = time_block(watched[which], arguments, calls)
            found.append(with_guard - time_plain(plain[which], arguments, calls))
        else:
            without = time_plain(plain[which], arguments, calls)
            found.append(time_block(watched[which], arguments, calls) - without)
    quarters = statistics.quantiles(found, n=4)
    error = 1.25 * (quarters[2] - quarters[0]) / 1.35 / len(found) ** 0.5  # of a median, for normal noise
    return {"added": statistics.median(found), "error": error}


figures = {"barrier": difference(0, ())}
for name, num_bytes in (("8 B", 8), ("1 KiB", 1024), ("1 MiB", 1 << 20)):
    tensor = torch.zeros(num_bytes // 8, dtype=torch.float64)
    figures[f"all-reduce {name}"] = difference(1, (tensor,), calls=CALLS if num_bytes < 1 << 20 else 4)
if dist.get_rank() == 0:
    print(json.dumps(figures), flush=True)
dist.barrier()
dist.destroy_process_group()
