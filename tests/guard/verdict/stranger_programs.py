"""Programs in the manners of many authors: classes, decorators, callbacks, meshes, messages; see cause_programs.py."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import OTHER_SPLIT, SPLIT, Calls, Side

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


# groups and order


def mesh_by_a_list(side: Side, broken: bool) -> Calls:
    """Two ranks of each group begin with the group, the others with the world."""
    order = [in_own_group, in_the_world]
    if broken and side.rank in (0, 2):
        order.reverse()
    for share in order:
        yield from share(side)


def in_own_group(side: Side) -> Calls:
    yield side.all_reduce(on=SPLIT if side.rank in side.members else OTHER_SPLIT)  # <- here mesh_by_a_list


def in_the_world(side: Side) -> Calls:
    yield side.barrier()


def metrics_of_a_set(side: Side, broken: bool) -> Calls:
    """A set of names comes in another order on one rank."""
    names = ["loss", "accuracy", "recall"]
    if broken and side.rank == 0:
        names = names[1:] + names[:1]
    reduce = {"loss": reduce_loss, "accuracy": reduce_accuracy, "recall": reduce_recall}
    for name in names:
        yield from reduce[name](side)


def reduce_loss(side: Side) -> Calls:
    yield side.all_reduce(1)  # <- here metrics_of_a_set


def reduce_accuracy(side: Side) -> Calls:
    yield side.all_gather(1)


def reduce_recall(side: Side) -> Calls:
    yield side.bcast()


def hook_in_front(side: Side, broken: bool) -> Calls:
    hooks = [norm_hook]
    if side.rank == 1 or not broken:
        hooks.insert(0, scale_hook)
    for _step in range(3):
        for hook in hooks:
            yield from hook(side)


def norm_hook(side: Side) -> Calls:
    yield side.all_reduce(1)


def scale_hook(side: Side) -> Calls:
    yield side.bcast()  # <- here hook_in_front


# roles: the root makes its collectives at lines of its own


def root_at_its_own_line(side: Side, broken: bool) -> Calls:
    for step in range(3):
        if side.rank == 0:
            yield side.bcast()
        else:
            yield side.bcast()
        if broken and side.rank == 1 and step == 1:
            yield side.barrier()  # <- here root_at_its_own_line
        yield side.all_reduce()


def root_at_its_own_line_once(side: Side, broken: bool) -> Calls:
    if side.rank == 0:
        yield side.bcast()
    else:
        yield side.bcast()
    for step in range(4):
        if broken and side.rank == 2 and step == 2:
            continue
        yield side.all_reduce()  # <- here root_at_its_own_line_once
        if step % 2 == 1:
            yield side.all_gather()


def roles_by_a_match(side: Side, broken: bool) -> Calls:
    for step in range(4):
        match side.rank:
            case 0:
                yield side.gather()
            case _:
                yield side.gather()
        if broken and side.rank == 1 and step == 2:
            continue
        yield side.all_reduce()  # <- here roles_by_a_match


def roles_by_a_table(side: Side, broken: bool) -> Calls:
    share = {0: as_root}.get(side.rank, as_worker)
    for step in range(4):
        yield from share(side)
        if broken and side.rank == 1 and step == 2:
            continue
        yield side.all_reduce()  # <- here roles_by_a_table


def as_root(side: Side) -> Calls:
    yield side.bcast()


def as_worker(side: Side) -> Calls:
    yield side.bcast()


def worker_meets_in_between(side: Side, broken: bool) -> Calls:
    for step in range(3):
        if side.rank == 0:
            yield side.bcast()
        else:
            if broken and side.rank == 1 and step == 1:
                yield side.barrier()  # <- here worker_meets_in_between
            yield side.bcast()


def worker_of_a_match_meets_in_between(side: Side, broken: bool) -> Calls:
    for step in range(3):
        match side.rank:
            case 0:
                yield side.bcast()
            case _:
                if broken and side.rank == 1 and step == 1:
                    yield side.barrier()  # <- here worker_of_a_match_meets_in_between
                yield side.bcast()


class Model:
    def step(self, side: Side) -> Calls:
        yield side.all_reduce(4)
        yield from self.after(side)

    def after(self, side: Side) -> Calls:
        yield from ()


class ModelWithMetrics(Model):
    def after(self, side: Side) -> Calls:
        yield side.all_gather()  # <- here subclass_of_one_rank


def subclass_of_one_rank(side: Side, broken: bool) -> Calls:
    model = ModelWithMetrics() if side.rank == 1 or not broken else Model()
    for _ in range(3):
        yield from model.step(side)


def subclass_that_one_rank_lacks(side: Side, broken: bool) -> Calls:
    model = Model() if side.rank == 1 and broken else ModelThatWaits()
    for _ in range(3):
        yield from model.step(side)


class ModelThatWaits(Model):
    def after(self, side: Side) -> Calls:
        yield side.barrier()  # <- here subclass_that_one_rank_lacks


def gathers_for_a_new_key(side: Side, broken: bool) -> Calls:
    known: set[int] = set()
    for step in range(4):
        key = step % 2 if broken and side.rank == 0 else 0
        if key not in known:
            known.add(key)
            yield side.all_gather()  # <- here gathers_for_a_new_key
        yield side.all_reduce()


# messages


def halo_thinks_it_is_a_ring(side: Side, broken: bool) -> Calls:
    for _step in range(3):
        if side.rank + 1 < side.size:
            yield side.isend(side.rank + 1, tag=1)
        if side.rank > 0 or broken:
            yield side.recv((side.rank - 1) % side.size, tag=1)  # <- here halo_thinks_it_is_a_ring
        yield side.barrier()


def one_end_marker_less(side: Side, broken: bool) -> Calls:
    if side.rank == 0:
        for worker in (1, 2, 3):
            for _task in range(2):
                yield side.isend(worker, tag=1)
        for worker in (1, 2) if broken else (1, 2, 3):
            yield side.isend(worker, tag=2)  # <- here one_end_marker_less
    else:
        for _task in range(2):
            yield side.recv(0, tag=1)
        yield side.recv(0, tag=2)
    yield side.barrier()


def last_stage_sends_nothing_back(side: Side, broken: bool) -> Calls:
    for step in range(3):
        if side.rank > 0:
            yield side.recv(side.rank - 1, tag=step)
        if side.rank < side.size - 1:
            yield side.isend(side.rank + 1, tag=step)
            yield side.recv(side.rank + 1, tag=100 + step)  # <- here last_stage_sends_nothing_back
        if side.rank > 0 and not (broken and side.rank == 2 and step == 1):
            yield side.isend(side.rank - 1, tag=100 + step)


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
    CauseProgram(decorated_once_more, 3, (2,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(caught_in_a_region, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(retried_as_a_whole, 3, (1,), Cause.EXTRA_CALL),
    CauseProgram(next_batch_fails, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(no_tokens_for_the_expert, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(clips_only_with_gradients, 3, (0,), Cause.SKIPPED_CALL),
    CauseProgram(generator_step_skipped, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(break_misses_the_else, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(config_missing_on_one, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(mesh_by_a_list, 4, (0, 1, 2, 3), Cause.CALL_ORDER, (0, 1)),
    CauseProgram(metrics_of_a_set, 3, (0,), Cause.CALL_ORDER),
    CauseProgram(hook_in_front, 3, (1,), Cause.CALL_ORDER),
    CauseProgram(root_at_its_own_line, 3, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(root_at_its_own_line_once, 3, (2,), Cause.SKIPPED_CALL),
    CauseProgram(roles_by_a_match, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(roles_by_a_table, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(worker_meets_in_between, 3, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(subclass_of_one_rank, 3, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(worker_of_a_match_meets_in_between, 3, (1,), Cause.RANK_CONDITIONAL_CALL),
    CauseProgram(subclass_that_one_rank_lacks, 3, (1,), Cause.SKIPPED_CALL),
    CauseProgram(gathers_for_a_new_key, 3, (0,), Cause.EXTRA_CALL),
    CauseProgram(halo_thinks_it_is_a_ring, 4, (0, 3), Cause.RECEIVE_WITHOUT_SEND),
    CauseProgram(one_end_marker_less, 4, (0,), Cause.RECEIVE_WITHOUT_SEND),
    CauseProgram(last_stage_sends_nothing_back, 3, (2,), Cause.RECEIVE_WITHOUT_SEND),
]
