"""Programs whose source rules out other causes of what went wrong; see cause_programs.py."""

from __future__ import annotations

from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import Calls, Side

from paceline.guard.verdict.finding import Cause


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


PROGRAMS = [
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
]
