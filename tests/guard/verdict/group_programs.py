"""Programs for the tests of causes in which ranks work in groups, and one takes the communicator of another group.

See cause_programs.py for how they are written.
"""

from __future__ import annotations

from tests.guard.verdict.cause_programs import CauseProgram
from tests.guard.verdict.scripted import OTHER_SPLIT, SPLIT, WORLD, Calls, Side

from paceline.guard.verdict.finding import Cause


def _team_of(side: Side) -> str:
    return SPLIT if side.rank in side.members else OTHER_SPLIT


def takes_the_world_in_one_step(side: Side, broken: bool) -> Calls:
    for step in range(5):
        is_wrong = broken and side.rank == 3 and step == 3
        yield side.all_reduce(on=WORLD if is_wrong else _team_of(side))  # <- here takes_the_world_in_one_step
        yield side.barrier()


def takes_the_world_from_the_start(side: Side, broken: bool) -> Calls:
    for _ in range(3):
        is_wrong = broken and side.rank == 3
        yield side.all_reduce(on=WORLD if is_wrong else _team_of(side))  # <- here takes_the_world_from_the_start
        yield side.barrier()


def takes_the_team_for_the_world(side: Side, broken: bool) -> Calls:
    for step in range(5):
        yield side.all_reduce(on=_team_of(side))
        is_wrong = broken and side.rank == 2 and step == 2
        yield side.all_gather(on=_team_of(side) if is_wrong else WORLD)  # <- here takes_the_team_for_the_world


def saves_in_the_world_instead_of_its_team(side: Side, broken: bool) -> Calls:
    for step in range(6):
        yield side.all_reduce()
        if step % 2 == 1:
            yield from _save(side, _team_of(side) if not (broken and side.rank == 0 and step == 3) else WORLD)


def _save(side: Side, group: str) -> Calls:
    yield side.all_gather(on=group)  # <- here saves_in_the_world_instead_of_its_team


PROGRAMS = [
    CauseProgram(takes_the_world_in_one_step, 4, (3,), Cause.WRONG_COMMUNICATOR, (2, 3)),
    CauseProgram(takes_the_world_from_the_start, 4, (3,), Cause.WRONG_COMMUNICATOR, (2, 3)),
    CauseProgram(takes_the_team_for_the_world, 4, (2,), Cause.WRONG_COMMUNICATOR, (2, 3)),
    CauseProgram(saves_in_the_world_instead_of_its_team, 4, (0,), Cause.WRONG_COMMUNICATOR, (2, 3)),
]
