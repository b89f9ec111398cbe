"""Programs of many authors in which one rank stops at a step of its own or calls alone; see cause_programs.py."""

from __future__ import annotations

from collections.abc import Iterator

from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import Calls, Side

from paceline.guard.verdict.finding import Cause

# who stops, and when


class Stopper:
    def __init__(self, patience: int) -> None:
        self.patience, self.bad = patience, 0

    def update(self) -> bool:
        self.bad += 1
        return self.bad > self.patience


def own_patience(side: Side, broken: bool) -> Calls:
    stopper = Stopper(2 if broken and side.rank == 1 else 4)
    for _epoch in range(6):
        for _batch in range(3):
            yield side.all_reduce()  # <- here own_patience
        if stopper.update():
            break
    yield side.barrier()


def converges_by_its_own_residual(side: Side, broken: bool) -> Calls:
    residual = 1.0
    while residual > (0.1 if broken and side.rank == 2 else 0.2):
        residual /= 2
        yield side.all_reduce()  # <- here converges_by_its_own_residual
    yield side.gather()


def longer_validation(side: Side, broken: bool) -> Calls:
    for _epoch in range(2):
        for _batch in range(4):
            yield side.all_reduce()
        for _batch in range(3 if broken and side.rank == 1 else 2):
            yield side.all_gather()  # <- here longer_validation
    yield side.barrier()


def finds_no_checkpoint(side: Side, broken: bool) -> Calls:
    begin = 0 if broken and side.rank == 1 else 2
    for _epoch in range(begin, 5):
        yield side.all_reduce()  # <- here finds_no_checkpoint
    yield side.barrier()


def batches(side: Side, count: int) -> Iterator[int]:
    yield from range(count)


def generator_of_batches_ends_early(side: Side, broken: bool) -> Calls:
    source = batches(side, 4 if broken and side.rank == 0 else 6)
    for _batch in source:
        yield side.bcast()  # <- here generator_of_batches_ends_early
        yield side.all_reduce()
    yield side.all_gather()


# calls that one rank makes alone


def is_main(side: Side) -> bool:
    return side.rank == 0


def evaluate_model(side: Side) -> Calls:
    yield side.all_reduce(1)  # <- here evaluates_on_main


def evaluates_on_main(side: Side, broken: bool) -> Calls:
    for _epoch in range(3):
        for _batch in range(3):
            yield side.all_reduce()
        if is_main(side) or not broken:
            yield from evaluate_model(side)


def save(side: Side, *, waits: bool) -> Calls:
    if waits:
        yield side.barrier()  # <- here saves_with_a_barrier_of_its_own


def saves_with_a_barrier_of_its_own(side: Side, broken: bool) -> Calls:
    for epoch in range(4):
        yield side.all_reduce()
        if epoch % 2 == 1:
            if side.rank == 0:
                yield from save(side, waits=broken)
            yield side.barrier()


class Callback:
    def on_step(self, side: Side) -> Calls:
        yield from ()


class LogsLoss(Callback):
    def on_step(self, side: Side) -> Calls:
        yield side.all_reduce(1)  # <- here callback_of_one_rank


class Trainer:
    def __init__(self, callbacks: list[Callback]) -> None:
        self.callbacks = callbacks

    def fit(self, side: Side, steps: int) -> Calls:
        for _step in range(steps):
            yield side.all_reduce()
            for callback in self.callbacks:
                yield from callback.on_step(side)


def callback_of_one_rank(side: Side, broken: bool) -> Calls:
    callbacks: list[Callback] = [Callback()]
    if side.rank == 2 or not broken:
        callbacks.append(LogsLoss())
    yield from Trainer(callbacks).fit(side, 4)
    yield side.barrier()


def logs_by_the_clock(side: Side, broken: bool) -> Calls:
    clock = 0.0
    for step in range(8):
        clock += 1.5 if broken and side.rank == 0 else 1.0
        yield side.all_reduce()
        if clock > 6 or (not broken and step == 5):
            yield side.gather()  # <- here logs_by_the_clock
            clock = -100.0


def gathers_failures_where_there_are_any(side: Side, broken: bool) -> Calls:
    failures = ["bad row"] if side.rank == 1 or not broken else []
    yield side.all_reduce()
    yield side.all_reduce()
    if failures:
        yield side.gather()  # <- here gathers_failures_where_there_are_any
    yield side.barrier()


def warms_up_once_more(side: Side, broken: bool) -> Calls:
    for _ in range(3 if broken and side.rank == 0 else 2):
        yield side.all_reduce()  # <- here warms_up_once_more
    yield side.barrier()
    for _ in range(4):
        yield side.all_reduce()


PROGRAMS = [
    CauseProgram(own_patience, 3, (1,), Cause.UNEVEN_STEPS),
    CauseProgram(converges_by_its_own_residual, 3, (2,), Cause.UNEVEN_STEPS),
    CauseProgram(longer_validation, 3, (1,), Cause.UNEVEN_STEPS),
    CauseProgram(finds_no_checkpoint, 3, (1,), Cause.UNEVEN_STEPS),
    CauseProgram(generator_of_batches_ends_early, 3, (0,), Cause.UNEVEN_STEPS),
    CauseProgram(evaluates_on_main, 3, (0,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(saves_with_a_barrier_of_its_own, 3, (0,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(callback_of_one_rank, 3, (2,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(logs_by_the_clock, 3, (0,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(gathers_failures_where_there_are_any, 3, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(warms_up_once_more, 3, (0,), Cause.UNEVEN_STEPS),
]
