"""Training loops that go wrong in the ways real ones do, each with the twin that its advice leads to.

With `broken` a program goes wrong on some rank, without it is right. `# <- here NAME` marks the lines of which the
finding about the program NAME must name at least one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.guard.verdict.scripted import OTHER_SPLIT, SPLIT, Calls, Side

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


# communicators


def one_call_short_on_a_subgroup(side: Side, broken: bool) -> Calls:
    for step in range(6):
        if side.rank in side.members and not (broken and side.rank == 1 and step == 4):
            yield side.all_reduce(on=SPLIT)  # <- here one_call_short_on_a_subgroup
        yield side.barrier()


def communicators_in_another_order(side: Side, broken: bool) -> Calls:
    for _ in range(3):
        yield side.all_reduce()
    first, second = (SPLIT, "mpi-world") if broken and side.rank == 1 else ("mpi-world", SPLIT)
    yield side.barrier(on=first)  # <- here communicators_in_another_order
    yield side.barrier(on=second)


# order


def calls_in_another_order(side: Side, broken: bool) -> Calls:
    if broken and side.rank == 2:
        yield side.bcast()  # <- here calls_in_another_order
        yield side.all_reduce()
    else:
        yield side.all_reduce()
        yield side.bcast()


# messages


def forgets_one_send(side: Side, broken: bool) -> Calls:
    for step in range(5):
        if side.rank == 1:
            if not (broken and step == 3):
                yield side.isend(0, tag=1)
            yield side.isend(0, tag=2)
        elif side.rank == 0:
            yield side.recv(1, tag=1)  # <- here forgets_one_send
            yield side.recv(1, tag=2)
        yield side.barrier()


# what the source rules out


def retries_a_step(side: Side, broken: bool) -> Calls:
    for step in range(6):
        yield from retried(side, 2 if broken and side.rank == 2 and step == 3 else 1)
        yield side.barrier()


def retried(side: Side, attempts: int) -> Calls:
    for _attempt in range(attempts):
        yield side.all_reduce()  # <- here retries_a_step


def returns_early_without_particles(side: Side, broken: bool) -> Calls:
    for step in range(6):
        yield from centre_of_mass(side, 0 if broken and side.rank == 3 and step >= 3 else 5)
        yield side.gather()


def centre_of_mass(side: Side, num_particles: int) -> Calls:
    if num_particles == 0:
        return
    yield side.all_reduce(3)  # <- here returns_early_without_particles
    yield side.all_reduce(1)  # the number of particles


def validates_when_it_is_time(side: Side, broken: bool) -> Calls:
    for step in range(8):
        yield side.all_reduce()
        is_due = step == 4 and (side.rank == 0 or not broken)
        if is_due:
            yield side.gather()  # <- here validates_when_it_is_time


def logs_in_a_rhythm_of_its_own(side: Side, broken: bool) -> Calls:
    every = 2 if broken and side.rank == 1 else 4
    for step in range(1, 9):
        yield side.all_reduce()
        yield from tick(side, step, every)


def tick(side: Side, step: int, every: int) -> Calls:
    if step % every == 0:
        yield side.gather()  # <- here logs_in_a_rhythm_of_its_own


def checks_in_another_rhythm(side: Side, broken: bool) -> Calls:
    start = 1 if broken and side.rank == 2 else 0
    for iteration in range(start, start + 12):
        yield side.bcast()
        if iteration % 4 == 3:
            yield side.all_reduce()  # <- here checks_in_another_rhythm


def moves_its_rhythm_later(side: Side, broken: bool) -> Calls:
    count = 0
    for step in range(16):
        count += 2 if broken and side.rank == 1 and step == 9 else 1
        yield side.all_gather()
        if count % 4 == 0:
            yield side.all_reduce()  # <- here moves_its_rhythm_later


def skips_the_last_batch(side: Side, broken: bool) -> Calls:
    for batch in [1, 2, 0, 4] if broken and side.rank == 1 else [1, 2, 3, 4]:
        if not batch:
            continue
        yield side.all_reduce()  # <- here skips_the_last_batch
    yield side.bcast()


def skips_a_parameter_before_the_end(side: Side, broken: bool) -> Calls:
    for step in range(3):
        for parameter in range(3):
            if not (broken and side.rank == 1 and (step, parameter) == (1, 1)):
                yield side.all_reduce()  # <- here skips_a_parameter_before_the_end
    yield side.bcast()


def fewer_batches_in_a_trainer(side: Side, broken: bool) -> Calls:
    yield from fit(side, 3 if broken and side.rank == 1 else 4)
    yield side.gather()


def fit(side: Side, num_batches: int) -> Calls:
    for _batch in range(num_batches):
        yield side.all_reduce()  # <- here fewer_batches_in_a_trainer


def one_of_two_stops(side: Side, broken: bool) -> Calls:
    for _ in range(3 if broken and side.rank == 1 else 5):
        yield side.all_reduce()  # <- here one_of_two_stops
    yield side.bcast()


def returns_early_before_the_first_step(side: Side, broken: bool) -> Calls:
    yield from load_config(side, not (broken and side.rank == 0))
    for _step in range(3):
        yield side.all_reduce()


def load_config(side: Side, found: bool) -> Calls:
    if not found:
        return
    yield side.bcast()  # <- here returns_early_before_the_first_step


def longer_validation_of_two(side: Side, broken: bool) -> Calls:
    for _epoch in range(3):
        yield from train_epoch(side, 5)
        yield from validate(side, 4 if broken and side.rank == 0 else 3)


def train_epoch(side: Side, num_batches: int) -> Calls:
    for _batch in range(num_batches):
        yield side.all_reduce(4)


def validate(side: Side, num_batches: int) -> Calls:
    for _batch in range(num_batches):
        yield side.all_reduce(1)  # <- here longer_validation_of_two


# roles


def reverses_the_order_of_groups(side: Side, broken: bool) -> Calls:
    for _ in range(3):
        if broken and side.rank == 3:
            yield from in_world(side)
            yield from in_team(side)
        else:
            yield from in_team(side)
            yield from in_world(side)


def mirrors_the_groups(side: Side, broken: bool) -> Calls:
    for _ in range(3):
        if side.rank != 3 or not broken:
            yield from in_team(side)
            yield from in_world(side)
        else:
            yield from in_world(side)
            yield from in_team(side)


def reverses_a_list_of_groups(side: Side, broken: bool) -> Calls:
    order = [in_team, in_world]
    if broken and side.rank == 3:
        order.reverse()
    for _ in range(3):
        for share in order:
            yield from share(side)


def in_team(side: Side) -> Calls:
    team = SPLIT if side.rank in side.members else OTHER_SPLIT
    yield side.all_reduce(on=team)  # <- here reverses_the_order_of_groups mirrors_the_groups reverses_a_list_of_groups


def in_world(side: Side) -> Calls:
    yield side.barrier()


def leaves_a_loop_of_messages(side: Side, broken: bool) -> Calls:
    for _ in range(4 if broken and side.rank == 2 else 3):
        yield side.isend((side.rank + 1) % 3)
        yield side.recv((side.rank - 1) % 3)  # <- here leaves_a_loop_of_messages
    yield side.barrier()


def ends_after_a_loop_of_messages(side: Side, broken: bool) -> Calls:
    for _ in range(4 if broken and side.rank == 2 else 3):
        yield side.isend((side.rank + 1) % 3)
        yield side.recv((side.rank - 1) % 3)  # <- here ends_after_a_loop_of_messages


def sends_to_one_neighbour_less(side: Side, broken: bool) -> Calls:
    last = 2 if broken and side.rank == 2 else 3
    if side.rank > 0:
        yield side.recv(side.rank - 1)  # <- here sends_to_one_neighbour_less
    if side.rank < last:
        yield side.isend(side.rank + 1)
    yield side.barrier()


def pushes_one_gradient_less(side: Side, broken: bool) -> Calls:
    for step in range(5):
        if side.rank == 0:
            for worker in (1, 2, 3):
                yield side.recv(worker, tag=1)  # <- here pushes_one_gradient_less
            for worker in (1, 2, 3):
                yield side.isend(worker, tag=2)
        else:
            if not (broken and side.rank == 2 and step == 3):
                yield side.isend(0, tag=1)
            yield side.recv(0, tag=2)


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
    CauseProgram(one_call_short_on_a_subgroup, 4, (1,), Cause.SKIPPED_CALL, (0, 1, 2)),
    CauseProgram(communicators_in_another_order, 3, (1,), Cause.CALL_ORDER, (0, 1, 2)),
    CauseProgram(calls_in_another_order, 3, (2,), Cause.CALL_ORDER),
    CauseProgram(forgets_one_send, 3, (1,), Cause.RECEIVE_WITHOUT_SEND),
    CauseProgram(retries_a_step, 4, (2,), Cause.EXTRA_CALL),
    CauseProgram(returns_early_without_particles, 4, (3,), Cause.SKIPPED_CALL),
    CauseProgram(validates_when_it_is_time, 3, (0,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(logs_in_a_rhythm_of_its_own, 3, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(checks_in_another_rhythm, 3, (2,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(moves_its_rhythm_later, 3, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(skips_the_last_batch, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(skips_a_parameter_before_the_end, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(fewer_batches_in_a_trainer, 3, (1,), Cause.UNEVEN_STEPS),
    CauseProgram(one_of_two_stops, 2, (0, 1), Cause.UNEVEN_STEPS),
    CauseProgram(returns_early_before_the_first_step, 3, (0,), Cause.SKIPPED_CALL),
    CauseProgram(longer_validation_of_two, 2, (0, 1), Cause.UNEVEN_STEPS),
    CauseProgram(reverses_the_order_of_groups, 4, (3,), Cause.CALL_ORDER, (2, 3)),
    CauseProgram(mirrors_the_groups, 4, (3,), Cause.CALL_ORDER, (2, 3)),
    CauseProgram(reverses_a_list_of_groups, 4, (3,), Cause.CALL_ORDER, (2, 3)),
    CauseProgram(leaves_a_loop_of_messages, 3, (2,), Cause.UNEVEN_STEPS),
    CauseProgram(ends_after_a_loop_of_messages, 3, (2,), Cause.UNEVEN_STEPS),
    CauseProgram(sends_to_one_neighbour_less, 4, (2,), Cause.RECEIVE_WITHOUT_SEND),
    CauseProgram(pushes_one_gradient_less, 4, (2,), Cause.RECEIVE_WITHOUT_SEND),
]
