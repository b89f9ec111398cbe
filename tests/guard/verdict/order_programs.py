"""Programs that go wrong in their communicators, their order of calls or their messages; see cause_programs.py."""

from __future__ import annotations

from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import OTHER_SPLIT, SPLIT, Calls, Side

from paceline.guard.verdict.finding import Cause

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
    CauseProgram(one_call_short_on_a_subgroup, 4, (1,), Cause.SKIPPED_CALL, (0, 1, 2)),
    CauseProgram(communicators_in_another_order, 3, (1,), Cause.CALL_ORDER, (0, 1, 2)),
    CauseProgram(calls_in_another_order, 3, (2,), Cause.CALL_ORDER),
    CauseProgram(forgets_one_send, 3, (1,), Cause.RECEIVE_WITHOUT_SEND),
    CauseProgram(reverses_the_order_of_groups, 4, (3,), Cause.CALL_ORDER, (2, 3)),
    CauseProgram(mirrors_the_groups, 4, (3,), Cause.CALL_ORDER, (2, 3)),
    CauseProgram(reverses_a_list_of_groups, 4, (3,), Cause.CALL_ORDER, (2, 3)),
    CauseProgram(leaves_a_loop_of_messages, 3, (2,), Cause.UNEVEN_STEPS),
    CauseProgram(ends_after_a_loop_of_messages, 3, (2,), Cause.UNEVEN_STEPS),
    CauseProgram(sends_to_one_neighbour_less, 4, (2,), Cause.RECEIVE_WITHOUT_SEND),
    CauseProgram(pushes_one_gradient_less, 4, (2,), Cause.RECEIVE_WITHOUT_SEND),
]
