"""Cuts samples into groups of equal size and equal cost. Whole numbers only: all ranks compute the same groups."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from paceline.balance.costs import LARGEST_SUM, Numbers, whole_costs
from paceline.errors import InputError, PacelineError, whole_number

_MAX_SWEEPS = 400
_FEW_PER_GROUP = 32  # with so few samples per group, differencing is refined too: swaps have little to choose from
_NO_LIMIT = -1
_NOTHING = np.empty(0, np.int64)
_EVEN = 9e-5  # so near to the bound, groups are as even as makes no difference
_COST_LIMITS = (1.0, 1.001, 1.01, 1.1)  # parts of the heaviest group's cost that memory may push others to

Loads = np.ndarray[Any, np.dtype[np.int64]] | np.ndarray[Any, np.dtype[np.float64]]


class Method(StrEnum):
    """How groups are found."""

    AUTO = "auto"
    DIFFERENCING = "differencing"
    LONGEST_FIRST = "longest_first"
    SWAP_IN_PLACE = "swap_in_place"


class MemoryLimitError(PacelineError):
    """No groups were found that respect the memory limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partition:
    """Groups of samples.

    Attributes:
        groups: The samples of each group: real ones in rising order, then padding. Sizes differ by at most 1.
        loads: The cost of each group.
        max_over_mean: The heaviest group's cost over the mean: how much longer a step takes than it must.
        max_over_bound: The heaviest group's cost over what no groups can be below; 1.0 is proven to be the best.
        num_moved: Samples that are not where `placement` had them; 0 if none was given.
    """

    groups: tuple[Numbers, ...]
    loads: Loads
    max_over_mean: float
    max_over_bound: float
    num_moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What is asked for, in whole numbers."""

    costs: Numbers
    num_groups: int
    real: np.ndarray[Any, np.dtype[np.bool_]]
    placement: Numbers | None
    memory: Numbers
    limit: int
    order: Numbers  # the heaviest first, padding last
    falling: Numbers  # the costs in this order
    bound: int  # no groups have a heaviest one below this

    def heaviest(self, group_of: Numbers) -> int:
        """Return the load of the heaviest group."""
        return int(_sums(group_of, self.costs, self.num_groups).max(initial=0))

    def memory_fits(self, group_of: Numbers) -> bool:
        """Say whether every group's memory is within the limit."""
        if self.limit == _NO_LIMIT:
            return True
        return int(_sums(group_of, self.memory, self.num_groups).max(initial=0)) <= self.limit


def partition(
    costs: Any,
    num_groups: int,
    method: str | Method = Method.AUTO,
    placement: Any = None,
    *,
    real: Any = None,
    memory: Any = None,
    memory_limit: int | None = None,
    tolerance: float = 1e-3,
) -> Partition:
    """Cut samples into groups whose sizes differ by at most 1 and whose costs are as equal as can be.

    >>> parts = partition([9, 1, 7, 3, 5, 5], 2)
    >>> [group.tolist() for group in parts.groups], parts.loads.tolist()
    ([[0, 1, 5], [2, 3, 4]], [15, 15])

    Methods: `differencing` is Karmarkar and Karp's, with groups of equal size. `longest_first` gives the heaviest
    sample to the lightest group with room, then swaps. `swap_in_place` starts from `placement` and swaps only what
    must move for a balance within `tolerance`. `auto` without a placement is never worse than `differencing`, and
    within 0.01 % of the bound where one of the first two is. With a placement it swaps in place; if that does not come
    within `tolerance` of the bound it deals anew, with groups named so that most samples stay, and takes the better.

    Args:
        costs: One number per sample, at least 0.
        num_groups: Groups to make.
        method: How.
        placement: The group each sample is in now.
        real: Which samples are real; others are padding: they cost nothing and stand last in their group. They are
            spread as even costs allow, or stay where `placement` has them. No group is left without a real sample while
            another has two.
        memory: What each sample needs of its group's memory.
        memory_limit: The memory of one group. What is said of methods holds as far as the limit allows.
        tolerance: By which part the heaviest group may be above the bound when samples are swapped in place.

    Raises:
        InputError: If an argument cannot be used.
        MemoryLimitError: If no groups were found within the memory limit.
    """
    method = _method(method)
    num_groups = whole_number("num_groups", num_groups, least=1)
    if not 0 <= tolerance < float("inf"):
        raise InputError(f"tolerance must be a number of at least 0, got {tolerance!r}")
    numbers, factor = whole_costs(costs)
    task = _task(numbers, num_groups, real, placement, memory, memory_limit)
    if method is Method.SWAP_IN_PLACE and task.placement is None:
        raise InputError("method 'swap_in_place' starts from where samples are: give a placement")
    group_of = _within_memory(task, method, tolerance) if task.limit != _NO_LIMIT else _find(task, method, tolerance)
    return _result(task, group_of, factor)


def warm_up(*, in_background: bool = False) -> threading.Thread | None:
    """Compile what `partition` needs, or load it from disk, before the first step has to wait for it.

    Returns:
        The thread that does it, if it is done in the background.
    """
    if in_background:
        return _start_warming()
    partition([3, 2, 1, 1], 2, Method.SWAP_IN_PLACE, placement=[0, 0, 1, 1], tolerance=0.0)
    partition([3, 2, 1, 1], 2, Method.LONGEST_FIRST)
    partition([3, 2, 1, 1], 2, Method.DIFFERENCING)
    return None


_WARMING: list[threading.Thread] = []


def _start_warming() -> threading.Thread:
    """Warm up in a thread. A process that forks meanwhile waits for it: the child would inherit numba's locks."""
    if not _WARMING:
        os.register_at_fork(before=_wait_for_warming)
    thread = threading.Thread(target=warm_up, name="paceline-warm-up")
    thread.start()
    _WARMING[:] = [thread]
    return thread


def _wait_for_warming() -> None:
    for thread in _WARMING:
        if thread is not threading.current_thread():
            thread.join()


def _method(method: str | Method) -> Method:
    try:
        return Method(method)
    except ValueError:
        raise InputError(f"method must be one of {', '.join(map(repr, map(str, Method)))}, got {method!r}") from None


def _task(
    costs: Numbers, num_groups: int, real: Any, placement: Any, memory: Any, memory_limit: int | None
) -> _Task:  # fmt: skip
    from paceline.balance import kernels

    if (memory is None) != (memory_limit is None):
        raise InputError("memory and memory_limit go together: give both or none")
    is_real = np.ones(costs.size, np.bool_) if real is None else _flags("real", real, costs.size)
    costs = costs if real is None else np.where(is_real, costs, 0)
    needed = _NOTHING
    limit = _NO_LIMIT
    if memory is not None:
        needed, _ = whole_costs(memory, "memory")
        if needed.size != costs.size or (np.asarray(memory).dtype.kind == "f" and costs.size):
            raise InputError(f"memory must be one whole number per sample, got {needed.size} for {costs.size} samples")
        limit = whole_number("memory_limit", memory_limit, least=0)
        needed = needed if real is None else np.where(is_real, needed, 0)
    order = kernels.heaviest_first(costs if real is None else np.where(is_real, costs, -1))
    falling = costs[order]
    return _Task(
        costs=costs, num_groups=num_groups, real=is_real,
        placement=None if placement is None else _placement(placement, costs.size, num_groups),
        memory=needed, limit=limit, order=order, falling=falling, bound=_bound(falling, num_groups),
    )  # fmt: skip


def _flags(name: str, values: Any, size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    array = np.asarray(values)
    if array.shape != (size,) or (array.dtype != np.bool_ and size):
        raise InputError(f"{name} must be one boolean per sample: {size} of them, got {array.dtype} {array.shape}")
    return array.astype(
        np.bool_
    )  # a copy: kernels are compiled for plain arrays: not for views, not for read-only ones


def _placement(placement: Any, size: int, num_groups: int) -> Numbers:
    array = np.asarray(placement)
    if array.shape != (size,) or (array.dtype.kind not in "iu" and size):
        raise InputError(f"placement must be one group per sample: {size} of them, got {array.dtype} {array.shape}")
    if size and (array.min() < 0 or array.max() >= num_groups):
        raise InputError(f"placement must name groups from 0 to {num_groups - 1}, got {array.min()} to {array.max()}")
    return array.astype(np.int64)


def _bound(falling: Numbers, num_groups: int) -> int:
    """Return what the heaviest group cannot be below: the mean, and what the heaviest samples bring with them.

    A group has at least n // k samples, so the heaviest sample is with the lightest that fill it up; and of the k + 1
    heaviest samples two are in one group.
    """
    num = falling.size
    if num == 0:
        return 0
    least = num // num_groups
    bound = max(-(-int(falling.sum()) // num_groups), int(falling[0]))
    if least > 1:
        bound = max(bound, int(falling[0] + falling[num - least + 1 :].sum()))
    if num > num_groups:
        pair = int(falling[num_groups - 1] + falling[num_groups])
        fill = int(falling[num - least + 2 :].sum()) if least > 2 else 0
        bound = max(bound, pair + fill)
    return bound


def _sums(group_of: Numbers, numbers: Numbers, num_groups: int) -> Numbers:
    from paceline.balance import kernels

    return kernels.sums_of(group_of, numbers, num_groups)


def _find(task: _Task, method: Method, tolerance: float) -> Numbers:
    """Return the group of each sample, without a look at memory."""
    if method is Method.LONGEST_FIRST:
        return _named(task, _longest_first(task))
    if method is Method.DIFFERENCING:
        return _named(task, _differencing(task))
    if task.placement is None:
        return _best(task)
    target = _target(task, tolerance)
    in_place = _in_place(task, target)
    if method is Method.SWAP_IN_PLACE or task.heaviest(in_place) <= target:
        return in_place
    anew = _best(task)
    return _named(task, anew) if task.heaviest(anew) < task.heaviest(in_place) else in_place


def _target(task: _Task, tolerance: float) -> int:
    """Return the load that is light enough within the tolerance."""
    return task.bound + int(min(task.bound * tolerance, float(LARGEST_SUM)))


def _best(task: _Task) -> Numbers:
    """Return groups that are never worse than differencing's: its own, or others that are at least as even.

    Differencing takes one sample of each row of the sorted samples into a group, so its heaviest group has the heaviest
    sample and at least the lightest of every other row. Where this shows that it cannot be even it need not be tried.
    """
    good = int(task.bound * (1 + _EVEN))
    lightest_of_rows = task.falling[2 * task.num_groups - 1 :: task.num_groups]  # of full rows but the first
    floor = int(task.falling[:1].sum() + lightest_of_rows.sum())
    other = None
    if floor <= good:
        other = _differencing(task)
        if task.heaviest(other) <= good:
            return other
    best = _longest_first(task)
    if task.heaviest(best) <= floor:
        return best
    other = _differencing(task) if other is None else other
    if task.heaviest(other) < task.heaviest(best) or task.costs.size <= _FEW_PER_GROUP * task.num_groups:
        other = _refined(task, other, task.bound)
    return other if task.heaviest(other) < task.heaviest(best) else best


def _longest_first(task: _Task) -> Numbers:
    from paceline.balance import kernels

    return _refined(task, kernels.deal_longest_first(task.falling, task.order, task.num_groups), task.bound)


def _differencing(task: _Task) -> Numbers:
    from paceline.balance import kernels

    return kernels.deal_by_differencing(task.falling, task.order, task.num_groups)


def _in_place(task: _Task, target: int) -> Numbers:
    assert task.placement is not None
    return _refined(task, _with_real(task, _even_sizes(task, task.placement)), target)


def _refined(task: _Task, group_of: Numbers, target: int) -> Numbers:
    """Swap until no group is above the target, or nothing helps; the bound itself need not be met to the last unit."""
    from paceline.balance import kernels

    target = max(target, int(task.bound * (1 + _EVEN / 4)))
    if task.heaviest(group_of) <= target:
        return group_of
    return kernels.refine(
        task.falling, task.order, group_of, task.num_groups, target, task.memory, task.limit, _MAX_SWEEPS
    )


def _even_sizes(task: _Task, placement: Numbers) -> Numbers:
    """Return a placement whose sizes differ by at most 1, with as few samples moved as that takes."""
    num_groups = task.num_groups
    least, num_wide = divmod(placement.size, num_groups)
    sizes = np.bincount(placement, minlength=num_groups)
    wanted = np.full(num_groups, least)
    wanted[np.argsort(-sizes, kind="stable")[:num_wide]] += 1
    if (sizes == wanted).all():
        return placement
    group_of, loads = placement.copy(), _sums(placement, task.costs, num_groups)
    excess = []
    for group in np.flatnonzero(sizes > wanted).tolist():
        members = task.order[placement[task.order] == group]
        spare = sizes[group] - wanted[group]
        taken = members[(np.arange(spare) * members.size + members.size // 2) // spare]  # of every cost some
        excess.append(taken)
        loads[group] -= task.costs[taken].sum()
    moving = np.concatenate(excess)
    moving = moving[np.lexsort((moving, -task.costs[moving]))]
    room = np.maximum(wanted - sizes, 0)
    for sample in moving.tolist():
        open_groups = np.flatnonzero(room)
        group = int(open_groups[np.argmin(loads[open_groups])])
        group_of[sample] = group
        loads[group] += task.costs[sample]
        room[group] -= 1
    return group_of


def _with_real(task: _Task, group_of: Numbers) -> Numbers:
    """Give a real sample to groups that have none, from the heaviest that have two; take padding for it."""
    if task.real.all():
        return group_of
    num_real = np.bincount(group_of[task.real], minlength=task.num_groups)
    if num_real.min() > 0 or num_real.max() < 2:
        return group_of
    group_of = group_of.copy()
    loads = _sums(group_of, task.costs, task.num_groups)
    for empty in np.flatnonzero(num_real == 0).tolist():
        padding = np.flatnonzero((group_of == empty) & ~task.real)
        givers = np.flatnonzero(num_real > 1)
        if not padding.size or not givers.size:
            break
        giver = int(givers[np.argmax(loads[givers])])
        members = np.flatnonzero((group_of == giver) & task.real)
        gap = loads[giver] - loads[empty]
        given = int(members[np.argmin(np.abs(gap - 2 * task.costs[members]))])
        group_of[given], group_of[int(padding[0])] = empty, giver
        loads[giver] -= task.costs[given]
        loads[empty] += task.costs[given]
        num_real[giver] -= 1
        num_real[empty] += 1
    return group_of


def _named(task: _Task, group_of: Numbers) -> Numbers:
    """Name groups so that samples stay where they are, as far as one group after the other can choose."""
    if task.placement is None:
        return group_of
    from paceline.balance import kernels

    num_groups = task.num_groups
    pairs, counts = np.unique(group_of * num_groups + task.placement, return_counts=True)
    names = np.full(num_groups, -1)
    is_taken = np.zeros(num_groups, np.bool_)
    for pair in pairs[kernels.heaviest_first(counts.astype(np.int64))].tolist():
        group, name = divmod(pair, num_groups)
        if names[group] < 0 and not is_taken[name]:
            names[group], is_taken[name] = name, True
    names[names < 0] = np.flatnonzero(~is_taken)
    named: Numbers = names[group_of]
    return named


def _within_memory(task: _Task, method: Method, tolerance: float) -> Numbers:
    """Return groups within the memory limit, or raise."""
    from paceline.balance import kernels

    total, largest = int(task.memory.sum()), int(task.memory.max(initial=0))
    if largest > task.limit or total > task.limit * task.num_groups:
        raise MemoryLimitError(
            f"{task.num_groups} groups of memory {task.limit} cannot hold samples that need {total} together "
            f"and {largest} at most"
        )
    free = _find(_without_limit(task), method, tolerance)
    if task.memory_fits(free):
        return free
    by_memory = kernels.heaviest_first(np.where(task.real, task.memory, -1))

    def fitted(group_of: Numbers, max_cost: int) -> Numbers:
        """Swap until the memory fits, with no group's cost above a limit: the same swaps with changed roles."""
        return kernels.refine(
            task.memory[by_memory], by_memory, _with_real(task, group_of), task.num_groups, task.limit, task.costs,
            max_cost,
            _MAX_SWEEPS,
        )  # fmt: skip

    target = task.bound if task.placement is None else _target(task, tolerance)
    for part in _COST_LIMITS:  # even costs first: only what is above the limit must change
        fitting = fitted(free, int(task.heaviest(free) * part))
        if task.memory_fits(fitting):
            return _refined(task, fitting, target)
    found: list[Numbers] = []
    starts: list[Callable[[], Numbers]] = [
        lambda: kernels.deal_longest_first(task.memory[by_memory], by_memory, task.num_groups),
        lambda: kernels.deal_by_differencing(task.memory[by_memory], by_memory, task.num_groups),
    ]
    for start in starts:
        fitting = fitted(start(), _NO_LIMIT)
        if task.memory_fits(fitting):
            found.append(_refined(task, fitting, target))
    if not found:
        raise MemoryLimitError(
            f"no groups of memory {task.limit} were found for {task.costs.size} samples that need {total} together "
            f"in {task.num_groups} groups; the limit is {task.limit * task.num_groups / max(1, total):.4f} times that"
        )
    return _named(task, min(found, key=task.heaviest))


def _without_limit(task: _Task) -> _Task:
    return _Task(
        costs=task.costs, num_groups=task.num_groups, real=task.real, placement=task.placement,
        memory=_NOTHING, limit=_NO_LIMIT, order=task.order, falling=task.falling, bound=task.bound,
    )  # fmt: skip


def _result(task: _Task, group_of: Numbers, factor: float) -> Partition:
    from paceline.balance import kernels

    sums = _sums(group_of, task.costs, task.num_groups)
    members, ends = kernels.members_of(group_of, task.real, task.num_groups)
    total, heaviest = int(sums.sum()), int(sums.max())
    return Partition(
        groups=tuple(members[begin:end] for begin, end in itertools.pairwise([0, *ends.tolist()])),
        loads=sums if factor == 1.0 else sums / factor,
        max_over_mean=heaviest * task.num_groups / total if total else 1.0,
        max_over_bound=heaviest / task.bound if task.bound else 1.0,
        num_moved=0 if task.placement is None else int((group_of != task.placement).sum()),
    )
