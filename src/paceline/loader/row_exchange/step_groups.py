"""Decides which rank gets which rows of a step. All ranks know the same, so all decide alike."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from paceline.balance import Method, Partition, partition
from paceline.errors import InputError, whole_number
from paceline.loader.row_exchange.row_costs import Costs, GlobalCosts

_IN_PLACE = (Method.AUTO, Method.SWAP_IN_PLACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRules:
    """How the rows of a step are dealt; the same on all ranks.

    Attributes:
        method: How groups are found.
        tolerance: By how much, relative to the bound, the heaviest rank may exceed it.
        host_bytes_limit: Bytes of rows that a host sends to others in a step at the most, and receives; None for any.
    """

    method: Method
    tolerance: float
    host_bytes_limit: int | None

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < float("inf"):
            raise InputError(f"tolerance must be a number of at least 0, got {self.tolerance!r}")
        if self.host_bytes_limit is None:
            return
        whole_number("host_bytes_limit", self.host_bytes_limit, least=0)
        if self.method not in _IN_PLACE:
            raise InputError(
                f"method {self.method.value!r} deals from scratch, and cannot keep host_bytes_limit: take 'auto'"
            )

    def __str__(self) -> str:
        return (
            f"method {self.method.value}, tolerance {self.tolerance!r}, host_bytes_limit {self.host_bytes_limit}"
        )  # fmt: skip


def rank_of_rows(costs: GlobalCosts) -> Costs:
    """Return the rank that has each row now."""
    world_size = len(costs.hosts)
    return np.repeat(np.arange(world_size), costs.costs.size // world_size)


def cut_step(costs: GlobalCosts, row_bytes: Costs | None, rules: StepRules) -> Partition:
    """Find the row groups. What is even enough stays as it is, whatever the method.

    Args:
        costs: What the rows of all ranks cost.
        row_bytes: What each row takes when it travels; None if all ranks are on one host.
        rules: How rows are dealt.
    """
    world_size, placement = len(costs.hosts), rank_of_rows(costs)
    if row_bytes is not None and rules.method in _IN_PLACE:
        return partition(
            costs.costs, world_size, rules.method, placement, real=costs.real, tolerance=rules.tolerance,
            hosts=costs.hosts, sample_bytes=row_bytes, host_bytes_limit=rules.host_bytes_limit,
        )  # fmt: skip

    def cut(method: Method) -> Partition:
        return partition(
            costs.costs, world_size, method, placement, real=costs.real, tolerance=rules.tolerance
        )  # fmt: skip

    in_place = cut(Method.AUTO if rules.method is Method.AUTO else Method.SWAP_IN_PLACE)
    return in_place if in_place.num_moved == 0 or rules.method in _IN_PLACE else cut(rules.method)


def loads_now(costs: GlobalCosts) -> Costs:
    """Return what the rows of each rank cost as they are."""
    loads: Costs = costs.costs.reshape(len(costs.hosts), -1).sum(1)
    return loads


def num_real_moved(costs: GlobalCosts, parts: Partition) -> int:
    """Return how many real rows change rank."""
    placement = rank_of_rows(costs)
    return sum(
        int((costs.real[group] & (placement[group] != rank)).sum()) for rank, group in enumerate(parts.groups)
    )  # fmt: skip


def left_alone(costs: GlobalCosts, parts: Partition) -> Partition:
    """Return, in the place of a partition, the one in which all rows stay where they are."""
    loads = loads_now(costs)
    heavier = float(loads.max() / parts.loads.max())
    return replace(
        parts,
        groups=tuple(np.arange(costs.costs.size).reshape(len(costs.hosts), -1)),
        loads=loads,
        max_over_mean=parts.max_over_mean * heavier,
        max_over_bound=parts.max_over_bound * heavier,
        num_moved=0,
        num_crossed=0,
        bytes_crossed=0,
    )


def bytes_between_hosts(costs: GlobalCosts, row_bytes: Costs, parts: Partition) -> int:
    """Return the bytes of the rows that change host."""
    hosts = np.array(costs.hosts)
    before, crossing = hosts[rank_of_rows(costs)], 0
    for rank, group in enumerate(parts.groups):
        moving = group[(before[group] != hosts[rank]) & costs.real[group]]
        crossing += int(row_bytes[moving].sum())
    return crossing
