"""What watching adds to a call: blocks of watched and unwatched calls alternate within one process.

Each figure is a median of differences between neighbouring blocks, with the quarters above and below it: microseconds
of processor time of the thread that calls, and of the clock. Other work on the machine disturbs the clock more.
"""

import statistics
import time


def time_block(call, calls):
    """Return the processor time and the time of the clock that one call takes, in microseconds."""
    clock, processor = time.perf_counter(), time.thread_time()
    for _ in range(calls):
        call()
    processor, clock = time.thread_time() - processor, time.perf_counter() - clock
    return processor / calls * 1e6, clock / calls * 1e6


def spread(values):
    """Return the median and the quarters of some figures."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": middle, "quarters": [low, high]}


def added(watched, plain, *, calls, pairs, meet=lambda: None, around_plain=(lambda: None, lambda: None)):
    """Return what a call costs without the guard, and what the guard adds, both as processor time and by the clock.

    `meet` brings ranks together before each block; `around_plain` is called before and after an unwatched block.
    """
    before, after = around_plain

    def run_plain():
        meet()
        before()
        try:
            return time_block(plain, calls)
        finally:
            after()

    def run_watched():
        meet()
        return time_block(watched, calls)

    run_watched(), run_plain()
    plains, differences = [], []
    for pair in range(pairs):
        if pair % 2:
            with_guard, without = run_watched(), run_plain()
        else:
            without, with_guard = run_plain(), run_watched()
        plains.append(without)
        differences.append([one - other for one, other in zip(with_guard, without, strict=True)])
    kinds = ("processor", "clock")
    return {
        kind: {"plain": spread([row[at] for row in plains]), "added": spread([row[at] for row in differences])}
        for at, kind in enumerate(kinds)
    }
