"""Training loops that go wrong in the ways real ones do, each with the twin that its advice leads to.

With `broken` a program goes wrong on some rank, without it is right. `# <- here NAME` marks the lines of which the
finding about the program NAME must name at least one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.guard.verdict.scripted import Calls, Side

from paceline.guard.verdict.finding import Cause

Flagged = Callable[[Side, bool], Calls]


@dataclass(frozen=True, slots=True)
class CauseProgram:
    """A program, the ranks out of line, and the causes of which the first must be said."""

    program: Flagged
    size: int
    ranks: tuple[int, ...]
    cause: Cause
    split: tuple[int, ...] = ()


# a periodic collective after a skipped call


def skips_a_step_on_nan(side: Side, broken: bool) -> Calls:
    for step in range(20):
        if broken and side.rank == 1 and step == 12:
            continue
        yield side.all_reduce()  # <- here skips_a_step_on_nan
        if step % 5 == 4:
            yield side.barrier()


def skips_a_step_in_the_first_period(side: Side, broken: bool) -> Calls:
    for step in range(20):
        loss = float("nan") if broken and side.rank == 1 and step == 2 else 1.0
        if loss != loss:
            continue
        yield side.all_reduce()  # <- here skips_a_step_in_the_first_period
        if step % 5 == 4:
            yield side.barrier()


def caught_error_skips_the_reduce(side: Side, broken: bool) -> Calls:
    for step in range(12):
        try:
            if broken and side.rank == 2 and step == 7:
                raise OSError("no such sample")
            yield side.all_reduce()  # <- here caught_error_skips_the_reduce
        except OSError:
            pass
        if step % 4 == 3:
            yield side.gather()


def accumulates_differently(side: Side, broken: bool) -> Calls:
    every = 3 if broken and side.rank == 0 else 2
    for batch in range(1, 13):
        if batch % every == 0:
            yield side.all_reduce()  # <- here accumulates_differently
        if batch % 6 == 0:
            yield side.barrier()


def validates_every_few_batches(side: Side, broken: bool) -> Calls:
    for batch in range(1, 30):
        yield side.all_reduce()
        if not (broken and side.rank == 2 and batch == 17):
            yield side.all_gather()  # <- here validates_every_few_batches
        if batch % 6 == 0:
            yield side.gather()


def skips_both_calls_of_a_helper_in_the_first_period(side: Side, broken: bool) -> Calls:
    for step in range(20):
        if broken and side.rank == 1 and step == 4:
            pass  # a bad batch
        else:
            yield from forward_backward(side)
        if step % 5 == 4:
            yield from log(side)


def forward_backward(side: Side) -> Calls:
    yield side.bcast()  # <- here skips_both_calls_of_a_helper_in_the_first_period
    yield side.all_reduce()


def log(side: Side) -> Calls:
    yield side.all_gather(1)


def skips_both_calls_of_a_helper_later(side: Side, broken: bool) -> Calls:
    for step in range(20):
        if not (broken and side.rank == 1 and step == 12):
            yield from forward_backward_again(side)
        if step % 5 == 4:
            yield from log(side)


def forward_backward_again(side: Side) -> Calls:
    yield side.bcast()  # <- here skips_both_calls_of_a_helper_later
    yield side.all_reduce()


# one call too many


def logs_once_more(side: Side, broken: bool) -> Calls:
    for step in range(12):
        yield side.all_reduce()
        if step % 3 == 2:
            for _attempt in range(2 if broken and side.rank == 1 and step == 8 else 1):
                yield side.barrier()  # <- here logs_once_more


def saves_on_rank_zero(side: Side, broken: bool) -> Calls:
    for step in range(12):
        yield side.all_reduce()
        if step == 5 and (side.rank == 0 or not broken):
            yield side.barrier()  # <- here saves_on_rank_zero


def helper_under_a_condition_of_the_rank(side: Side, broken: bool) -> Calls:
    is_main = side.rank == 0
    for _step in range(6):
        yield side.all_reduce()
        if is_main or not broken:
            yield from save_checkpoint(side)


def save_checkpoint(side: Side) -> Calls:
    yield side.barrier()  # <- here helper_under_a_condition_of_the_rank


# loops that end early


def fewer_batches(side: Side, broken: bool) -> Calls:
    for _ in range(3 if broken and side.rank == 2 else 5):
        yield side.all_reduce()  # <- here fewer_batches
    yield side.gather()


def fewer_batches_then_next_epoch(side: Side, broken: bool) -> Calls:
    for epoch in range(4):
        for _ in range(4 if broken and side.rank == 1 and epoch == 2 else 5):
            yield side.all_reduce()  # <- here fewer_batches_then_next_epoch
        yield side.gather()


def stops_early_alone(side: Side, broken: bool) -> Calls:
    for step in range(9):
        yield side.all_reduce()  # <- here stops_early_alone
        if broken and side.rank == 1 and step == 4:
            break
    yield side.barrier()


def ends_after_fewer_steps(side: Side, broken: bool) -> Calls:
    for _ in range(3 if broken and side.rank == 1 else 6):
        yield side.all_reduce()  # <- here ends_after_fewer_steps


# an inner loop that is not the loop of steps


def parameter_without_gradient(side: Side, broken: bool) -> Calls:
    for step in range(6):
        for parameter in range(4):
            if broken and side.rank == 2 and step == 3 and parameter == 3:
                continue
            yield side.all_reduce()  # <- here parameter_without_gradient
        yield side.bcast()


def parameter_of_another_size_is_skipped(side: Side, broken: bool) -> Calls:
    for step in range(6):
        for parameter, size in enumerate((8, 32, 16, 64)):
            if broken and side.rank == 2 and step == 3 and parameter == 1:
                continue
            yield side.all_reduce(size)  # <- here parameter_of_another_size_is_skipped


# trainers: all calls come from one line of the outermost program


def trainer_with_a_callback(side: Side, broken: bool) -> Calls:
    yield from train(side, lambda step: not broken or side.rank != 1 or step != 4)


def train(side: Side, evaluates: Callable[[int], bool]) -> Calls:
    for step in range(8):
        yield side.all_reduce()
        if evaluates(step):
            yield from evaluate(side)


def evaluate(side: Side) -> Calls:
    yield side.all_gather()  # <- here trainer_with_a_callback


# sizes


def short_last_batch(side: Side, broken: bool) -> Calls:
    for batch in range(4):
        last = broken and side.rank == 2 and batch == 3
        yield side.all_gather(5 if last else 8)  # <- here short_last_batch


def another_call_of_the_same_helper(side: Side, broken: bool) -> Calls:
    for step in range(5):
        if not (broken and side.rank == 0 and step == 3):
            yield from synchronise(side, 8)  # <- here another_call_of_the_same_helper
        yield from synchronise(side, 2)


def synchronise(side: Side, size: int) -> Calls:
    yield side.all_reduce(size)


PROGRAMS = [
    CauseProgram(skips_a_step_on_nan, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(skips_a_step_in_the_first_period, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(caught_error_skips_the_reduce, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(accumulates_differently, 4, (0,), Cause.SKIPPED_CALL),
    CauseProgram(validates_every_few_batches, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(skips_both_calls_of_a_helper_in_the_first_period, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(skips_both_calls_of_a_helper_later, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(logs_once_more, 3, (1,), Cause.EXTRA_CALL),
    CauseProgram(saves_on_rank_zero, 3, (0,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(helper_under_a_condition_of_the_rank, 4, (0,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(fewer_batches, 3, (2,), Cause.UNEVEN_STEPS),
    CauseProgram(fewer_batches_then_next_epoch, 3, (1,), Cause.UNEVEN_STEPS),
    CauseProgram(stops_early_alone, 3, (1,), Cause.UNEVEN_STEPS),
    CauseProgram(ends_after_fewer_steps, 3, (1,), Cause.UNEVEN_STEPS),
    CauseProgram(parameter_without_gradient, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(parameter_of_another_size_is_skipped, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(trainer_with_a_callback, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(short_last_batch, 3, (2,), Cause.SHAPE),
    CauseProgram(another_call_of_the_same_helper, 3, (0,), Cause.SKIPPED_CALL),
]
