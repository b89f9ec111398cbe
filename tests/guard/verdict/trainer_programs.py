"""Training programs as strangers write them: helpers, callbacks, retries, checkpoints; see cause_programs.py."""

from __future__ import annotations

import contextlib

from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import Calls, Side

from paceline.guard.verdict.finding import Cause

# a loop over parameters that a whole step passes over


def caught_error_skips_all_parameters(side: Side, broken: bool) -> Calls:
    for step in range(12):
        yield from train_one(side, fails=broken and side.rank == 1 and step == 5)
        if step % 4 == 3:
            yield side.gather()


def train_one(side: Side, *, fails: bool) -> Calls:
    try:
        if fails:
            raise ValueError("corrupt sample")
        yield from reduce_gradients(side)
    except ValueError:
        pass


def reduce_gradients(side: Side) -> Calls:
    for _parameter in range(2):
        yield side.all_reduce()  # <- here caught_error_skips_all_parameters


def one_of_two_skips_a_step(side: Side, broken: bool) -> Calls:
    for step in range(16):
        if broken and side.rank == 0 and step == 5:
            continue
        for _parameter in ("weight", "bias"):
            yield side.all_reduce()  # <- here one_of_two_skips_a_step
        if step % 4 == 3:
            yield side.barrier()


# calls that a library makes for a line, or does not


def accumulates_once_too_often(side: Side, broken: bool) -> Calls:
    seen = 0
    for step in range(24):
        seen += 0 if broken and side.rank == 1 and step == 9 else 1
        yield from backward(side, synchronises=seen % 4 == 0)
        if (step + 1) % 8 == 0:
            yield side.all_reduce(1)


def backward(side: Side, *, synchronises: bool) -> Calls:
    call = side.all_reduce()
    hooks = [call] if synchronises else []
    yield from hooks  # <- here accumulates_once_too_often


def skips_before_the_first_of_a_period(side: Side, broken: bool) -> Calls:
    for step in range(6):
        yield from backward_of(side, None if broken and side.rank == 1 and step == 2 else 1.0)
        if step % 3 == 2:
            yield side.all_reduce(1)


def backward_of(side: Side, loss: float | None) -> Calls:
    if loss is None:
        return
    yield side.all_reduce()  # <- here skips_before_the_first_of_a_period


# a call that some ranks never make, and no call made again


def times_only_where_it_is_verbose(side: Side, broken: bool) -> Calls:
    timer = Timer(synchronises=not broken or side.rank != 2)
    for _step in range(4):
        yield side.all_reduce()
        yield from timer.stop(side)


class Timer:
    def __init__(self, *, synchronises: bool) -> None:
        self.synchronises = synchronises

    def stop(self, side: Side) -> Calls:
        if self.synchronises:
            yield side.barrier()  # <- here times_only_where_it_is_verbose


def averages_weights_only_where_configured(side: Side, broken: bool) -> Calls:
    enabled = not broken or side.rank != 1
    for _step in range(4):
        yield side.all_reduce()
        if enabled:
            for _tensor in range(2):
                yield side.bcast()  # <- here averages_weights_only_where_configured


def has_nothing_to_evaluate(side: Side, broken: bool) -> Calls:
    for _epoch in range(3):
        for _step in range(4):
            yield side.all_reduce()
        yield from evaluate_on(side, [] if broken and side.rank == 0 else [1])


def evaluate_on(side: Side, samples: list[int]) -> Calls:
    if not samples:
        return
    yield side.all_gather()  # <- here has_nothing_to_evaluate


def empty_validation_of_two(side: Side, broken: bool) -> Calls:
    batches = [] if broken and side.rank == 1 else [1, 2, 3]
    for _epoch in range(2):
        for _step in range(4):
            yield side.all_reduce(2)
        for _batch in batches:
            yield side.all_reduce(1)  # <- here empty_validation_of_two


def forgets_to_switch_to_evaluation(side: Side, broken: bool) -> Calls:
    for _epoch in range(2):
        for _batch in range(3):
            yield from normalise(side, training=True)
        for _batch in range(2):
            yield from normalise(side, training=broken and side.rank == 1)
        yield side.barrier()


def normalise(side: Side, *, training: bool) -> Calls:
    if training:
        yield side.all_reduce()  # <- here forgets_to_switch_to_evaluation


def evaluates_alone_at_the_end(side: Side, broken: bool) -> Calls:
    for _step in range(3):
        yield side.all_reduce()
    if side.rank == 0 or not broken:
        yield from evaluate_alone(side)


def evaluate_alone(side: Side) -> Calls:
    yield side.all_reduce(1)  # <- here evaluates_alone_at_the_end


# most ranks leave a call out


def most_ranks_skip_a_step(side: Side, broken: bool) -> Calls:
    for step in range(12):
        if broken and side.rank > 0 and step == 5:
            continue
        yield side.all_reduce()  # <- here most_ranks_skip_a_step
        if step % 4 == 3:
            yield side.barrier()


# one call too many


def accumulates_fewer_batches(side: Side, broken: bool) -> Calls:
    every = 2 if broken and side.rank == 1 else 3
    for batch in range(1, 13):
        if batch % every == 0:
            yield side.all_reduce()  # <- here accumulates_fewer_batches
        if batch % 6 == 0:
            yield side.bcast()


def has_its_hook_twice(side: Side, broken: bool) -> Calls:
    times = 2 if broken and side.rank == 2 else 1
    for _step in range(3):
        for size in (2, 3):
            for _hook in range(times):
                yield side.all_reduce(size)  # <- here has_its_hook_twice


# retries


def tries_again_after_half_a_step(side: Side, broken: bool) -> Calls:
    for step in range(6):
        yield from until_it_goes_well(side, fails=broken and side.rank == 2 and step == 3)


def until_it_goes_well(side: Side, *, fails: bool) -> Calls:
    times = 3
    for number in range(times):
        try:
            yield side.all_reduce()  # <- here tries_again_after_half_a_step
            if fails and not number:
                raise OSError("flaky file system")
            yield side.bcast()
            return
        except OSError:
            if number == times - 1:
                raise


# exceptions


def meets_the_others_after_an_error(side: Side, broken: bool) -> Calls:
    for step in range(5):
        try:
            if broken and side.rank == 1 and step == 2:
                raise OSError("no such file")
            yield side.all_reduce()  # <- here meets_the_others_after_an_error
        except OSError:
            yield side.barrier()


def gives_up_after_an_error(side: Side, broken: bool) -> Calls:
    with contextlib.suppress(FileNotFoundError):
        yield from all_steps(side, 2 if broken and side.rank == 2 else None)


def all_steps(side: Side, fails_at: int | None) -> Calls:
    for step in range(5):
        if step == fails_at:
            raise FileNotFoundError("shard-2.bin")
        yield side.all_reduce()  # <- here gives_up_after_an_error


# one helper, several callers


def has_one_metric_in_its_cache(side: Side, broken: bool) -> Calls:
    for epoch in range(4):
        yield side.all_reduce()
        yield from gathered(side, cached=False)
        hit = broken and side.rank == 0 and epoch == 2
        yield from gathered(side, cached=hit)  # <- here has_one_metric_in_its_cache
        yield side.barrier()


def gathered(side: Side, *, cached: bool) -> Calls:
    if cached:
        return
    yield side.all_gather()


# tensors in another order


def metrics_in_another_order(side: Side, broken: bool) -> Calls:
    for step in range(4):
        metrics = {"loss": 1, "accuracy": 5}
        if broken and side.rank == 2 and step == 1:
            metrics = {"accuracy": 5, "loss": 1}
        for size in metrics.values():
            yield side.all_reduce(size)  # <- here metrics_in_another_order


def parameters_in_another_order_from_the_start(side: Side, broken: bool) -> Calls:
    sizes = {"embedding": 12, "head": 3, "norm": 5}
    names = sorted(sizes, reverse=broken and side.rank == 1)
    for _step in range(3):
        for name in names:
            yield side.all_reduce(sizes[name])  # <- here parameters_in_another_order_from_the_start


# messages


def drops_one_micro_batch(side: Side, broken: bool) -> Calls:
    yield side.barrier()
    for step in range(3):
        yield from pass_on(side, dropped=2 if broken and side.rank == 1 and step == 1 else None)


def pass_on(side: Side, *, dropped: int | None) -> Calls:
    micro_batches = 4
    for number in range(micro_batches):
        if number == dropped:
            continue
        if side.rank > 0:
            yield side.recv(side.rank - 1)
        if side.rank < side.size - 1:
            yield side.isend(side.rank + 1)  # <- here drops_one_micro_batch
    yield side.all_reduce()


def has_a_frozen_layer(side: Side, broken: bool) -> Calls:
    for _ in range(3):
        for layer, size in enumerate((4, 4, 8, 4)):
            yield from reduce_gradient(side, size, is_frozen=broken and side.rank == 2 and layer == 2)


def reduce_gradient(side: Side, size: int, *, is_frozen: bool) -> Calls:
    if is_frozen:
        return
    yield side.all_reduce(size)  # <- here has_a_frozen_layer


def reverses_its_buckets_once(side: Side, broken: bool) -> Calls:
    for step in range(4):
        buckets = (4, 8, 16)
        for size in reversed(buckets) if broken and side.rank == 1 and step == 2 else buckets:
            yield side.all_reduce(size)  # <- here reverses_its_buckets_once


PROGRAMS = [
    CauseProgram(forgets_to_switch_to_evaluation, 3, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(evaluates_alone_at_the_end, 2, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(most_ranks_skip_a_step, 4, (1, 2, 3), Cause.SKIPPED_CALL),
    CauseProgram(accumulates_fewer_batches, 3, (1,), Cause.EXTRA_CALL),
    CauseProgram(has_its_hook_twice, 3, (2,), Cause.EXTRA_CALL),
    CauseProgram(skips_before_the_first_of_a_period, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(meets_the_others_after_an_error, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(gives_up_after_an_error, 3, (2,), Cause.UNEVEN_STEPS),
    CauseProgram(drops_one_micro_batch, 3, (1,), Cause.RECEIVE_WITHOUT_SEND),
    CauseProgram(accumulates_once_too_often, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(caught_error_skips_all_parameters, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(one_of_two_skips_a_step, 2, (0,), Cause.SKIPPED_CALL),
    CauseProgram(times_only_where_it_is_verbose, 3, (2,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(averages_weights_only_where_configured, 3, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(has_nothing_to_evaluate, 3, (0,), Cause.SKIPPED_CALL),
    CauseProgram(empty_validation_of_two, 2, (0, 1), Cause.SKIPPED_CALL),
    CauseProgram(tries_again_after_half_a_step, 3, (2,), Cause.EXTRA_CALL),
    CauseProgram(has_one_metric_in_its_cache, 3, (0,), Cause.SKIPPED_CALL),
    CauseProgram(metrics_in_another_order, 3, (2,), Cause.CALL_ORDER),
    CauseProgram(parameters_in_another_order_from_the_start, 3, (1,), Cause.SHAPE),
    CauseProgram(has_a_frozen_layer, 4, (2,), Cause.SKIPPED_CALL),
    CauseProgram(reverses_its_buckets_once, 4, (1,), Cause.CALL_ORDER),
]
