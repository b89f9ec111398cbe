"""Programs of many authors whose ranks have groups, orders, roles and messages; see cause_programs.py."""

from __future__ import annotations

from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import OTHER_SPLIT, SPLIT, Calls, Side

from paceline.guard.verdict.finding import Cause

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
