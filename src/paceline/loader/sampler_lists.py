"""Makes the lists of sample ids of one rank in a pass, some ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from paceline.loader.sampler_state import PlannedPass
from paceline.plan import EpochPlan, Plan
from paceline.plan.order import Ids
from paceline.plan.pack_kinds import is_pack_steps

_STEPS_AHEAD = 4  # of a plan with costs
_FIRST_BLOCK, _LARGEST_BLOCK = 1 << 10, 1 << 16  # ids computed ahead: few at first, to start at once


def make_lists(planned: PlannedPass, rank: int, stand_in: int | None) -> Iterator[list[Any]]:
    """Yield the lists of a rank in a pass. It holds no reference to its iterator, so it ends when that is deleted."""
    plan, step, block = planned.plan, 0, _FIRST_BLOCK
    if is_pack_steps(plan):
        yield from plan.lists(rank, planned.epoch)
        return
    if isinstance(plan, Plan) and plan.costs is not None:
        for step, row in enumerate(_rows_ahead(plan, rank, planned.epoch)):
            yield _filled(row, plan, step, stand_in) if row[-1] < 0 else row
        return
    while plan is not None and step < plan.num_steps:
        num_steps = min(max(1, block // plan.row_width), plan.num_steps - step)
        for row in plan.rows(rank, planned.epoch, step, num_steps).tolist():
            yield _filled(row, plan, step, stand_in) if row[-1] < 0 else row
            step += 1
        block = min(2 * block, _LARGEST_BLOCK)


def _filled(row: list[int], plan: EpochPlan, step: int, stand_in: int | None) -> list[int]:
    real = row[: row.index(-1)]
    if stand_in is None:
        return real
    return real + [stand_in] * (plan.batch_size_of(step) - len(real))


def _rows_ahead(plan: Plan, rank: int, epoch: int) -> Iterator[list[int]]:
    """Yield the rows of a plan with costs; while one is used, the next few are dealt in the background."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="paceline-plan") as background:
        ahead: deque[Future[Ids]] = deque()
        step = 0
        while step < plan.num_steps or ahead:
            while step < plan.num_steps and len(ahead) < _STEPS_AHEAD:
                ahead.append(background.submit(plan.rows, rank, epoch, step, 1))
                step += 1
            yield ahead.popleft().result()[0].tolist()
