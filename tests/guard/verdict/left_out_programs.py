"""Programs of many authors in which one rank leaves out calls or repeats them; see cause_programs.py."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable

from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import Calls, Side

from paceline.guard.verdict.finding import Cause

# decorators and context managers


def synchronised(function: Callable[[Side], Calls]) -> Callable[[Side], Calls]:
    @functools.wraps(function)
    def call(side: Side) -> Calls:
        yield from function(side)
        yield side.barrier()  # <- here decorated_once_more

    return call


@synchronised
def write_part(side: Side) -> Calls:
    yield from ()


def decorated_once_more(side: Side, broken: bool) -> Calls:
    for step in range(5):
        yield side.all_reduce()
        yield from write_part(side)
        if broken and side.rank == 2 and step == 2:
            yield from write_part(side)


def caught_in_a_region(side: Side, broken: bool) -> Calls:
    for step in range(6):
        with contextlib.suppress(ValueError):
            yield from region(side, fails=broken and side.rank == 1 and step == 3)
        yield side.barrier()


def region(side: Side, *, fails: bool) -> Calls:
    if fails:
        raise ValueError("nan in the input")
    yield side.all_reduce()  # <- here caught_in_a_region


def retried_as_a_whole(side: Side, broken: bool) -> Calls:
    for step in range(5):
        attempts = 2 if broken and side.rank == 1 and step == 2 else 1
        for _attempt in range(attempts):
            yield side.all_gather()  # <- here retried_as_a_whole
            yield side.all_reduce()
        if step % 2 == 1:
            yield side.barrier()


# calls that one rank leaves out


def next_batch_fails(side: Side, broken: bool) -> Calls:
    for step in range(9):
        try:
            if broken and side.rank == 2 and step == 4:
                raise OSError("file is gone")
        except OSError:
            continue
        yield side.all_reduce()  # <- here next_batch_fails
        if step % 3 == 2:
            yield side.all_gather()


def no_tokens_for_the_expert(side: Side, broken: bool) -> Calls:
    for step in range(4):
        for layer in range(3):
            tokens = 0 if broken and side.rank == 2 and step == 1 and layer == 1 else 5
            if tokens:
                yield side.all_gather()  # <- here no_tokens_for_the_expert
            yield side.all_reduce()


def clips_only_with_gradients(side: Side, broken: bool) -> Calls:
    for step in range(5):
        yield side.all_reduce()
        has_gradients = not (broken and side.rank == 0 and step == 3)
        if has_gradients:
            yield from clip(side)


def clip(side: Side) -> Calls:
    yield side.all_reduce(1)  # <- here clips_only_with_gradients


def generator_step_skipped(side: Side, broken: bool) -> Calls:
    for step in range(6):
        yield from discriminator_step(side)
        if broken and side.rank == 1 and step == 2:
            continue
        yield from generator_step(side)


def discriminator_step(side: Side) -> Calls:
    yield side.all_reduce(16)


def generator_step(side: Side) -> Calls:
    yield side.all_reduce(32)  # <- here generator_step_skipped


def break_misses_the_else(side: Side, broken: bool) -> Calls:
    for _epoch in range(3):
        for batch in range(3):
            if broken and side.rank == 1 and batch == 2:
                break
            yield side.all_reduce()  # <- here break_misses_the_else
        else:
            yield side.all_gather()
    yield side.barrier()


def config_missing_on_one(side: Side, broken: bool) -> Calls:
    yield side.barrier()
    yield from share_config(side, exists=not (broken and side.rank == 2))
    for _ in range(3):
        yield side.all_reduce()


def share_config(side: Side, *, exists: bool) -> Calls:
    if not exists:
        return
    yield side.bcast()  # <- here config_missing_on_one


PROGRAMS = [
    CauseProgram(decorated_once_more, 3, (2,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(caught_in_a_region, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(retried_as_a_whole, 3, (1,), Cause.EXTRA_CALL),
    CauseProgram(next_batch_fails, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(no_tokens_for_the_expert, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(clips_only_with_gradients, 3, (0,), Cause.SKIPPED_CALL),
    CauseProgram(generator_step_skipped, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(break_misses_the_else, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(config_missing_on_one, 3, (2,), Cause.SKIPPED_CALL),
]
