"""Re-deals the rows of each step between ranks, so that all have the same work, while the step before computes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import torch

from paceline.balance import Method, Partition
from paceline.batch.batch import Batch
from paceline.comm import Comm
from paceline.errors import InputError, choice
from paceline.loader.agreement.background import Closeable
from paceline.loader.agreement.first_message import gather_message_bytes
from paceline.loader.row_exchange.batch_collectives import exchange_counted, gather_batches
from paceline.loader.row_exchange.look_price import LookPrice
from paceline.loader.row_exchange.move_price import MovePrice
from paceline.loader.row_exchange.row_costs import (
    CostFunction,
    GlobalCosts,
    RowCosts,
    bytes_in,
    gather_costs,
    gather_row_bytes,
    row_costs,
)
from paceline.loader.row_exchange.run_ahead import RunAhead, WorkAhead, finished_ahead
from paceline.loader.row_exchange.step_groups import (
    StepRules,
    bytes_between_hosts,
    cut_step,
    left_alone,
    loads_now,
    num_real_moved,
)
from paceline.process.host_identity import host_identity

_HEADER_BYTES = 256  # about what of a first message is not payload


class Route(StrEnum):
    """How rows get to their new ranks; the result is the same for each."""

    AUTO = "auto"
    ALL_GATHER = "all_gather"  # all rows to all ranks, in one call where they are few
    ALL_TO_ALL = "all_to_all"  # only rows that change rank


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStatistics:
    """What balancing did to one step.

    Attributes:
        imbalance_before: The heaviest rank's cost over the mean, as the rows were.
        imbalance_after: The same, as they are now.
        max_over_bound: The heaviest rank's cost over what no deal can be below.
        num_moved: Real rows that changed rank, over all ranks.
        did_not_pay: Whether rows were left where they are because moving them takes longer than it saves.
        steps_to_leave: How many of the steps that follow are not worth asking for their costs, because the last ones
            were not.
        bytes_sent: Bytes that this rank sent for it.
        bytes_between_hosts: Bytes of rows that went from host to host, over all ranks.
        route: How rows travelled; None if none moved.
        seconds_hidden: How long the work for this step, including waiting for slower ranks, ran while the caller did
            something else.
        seconds_waited: How long the caller waited for it, and for earlier batches.
    """

    imbalance_before: float
    imbalance_after: float
    max_over_bound: float
    num_moved: int
    did_not_pay: bool
    steps_to_leave: int
    bytes_sent: int
    bytes_between_hosts: int
    route: Route | None
    seconds_hidden: float
    seconds_waited: float


_Balanced = tuple[Batch, StepStatistics]  # statistics without times


class Balancing:
    """A batch that is being balanced."""

    def __init__(self, work: WorkAhead[_Balanced]) -> None:
        self._work = work
        self._statistics: StepStatistics | None = None

    @property
    def is_done(self) -> bool:
        """Whether `finish` would return at once."""
        return self._work.is_done

    def wait(self, seconds: float) -> bool:
        """Wait until `finish` would return at once, for some seconds at the most; return whether it would."""
        return self._work.is_done_within(seconds)

    def finish(self) -> Batch:
        """Return this rank's rows after balancing; wait for them if need be. May be called again."""
        batch, statistics = self._work.wait()
        if self._statistics is None:
            hidden, waited = self._work.seconds_hidden or 0.0, self._work.seconds_waited
            self._statistics = replace(statistics, seconds_hidden=hidden, seconds_waited=waited)
        return batch

    @property
    def statistics(self) -> StepStatistics:
        """What balancing did. Known once the batch is finished."""
        if self._statistics is None:
            raise InputError("the statistics of a step are known once its batch is finished: call finish() first")
        return self._statistics


class Balancer(Closeable):
    """Evens out the work of ranks, batch by batch, ahead of the step that needs it.

    >>> from paceline.comm.alone_comm import AloneComm
    >>> with Balancer(AloneComm(), cost=lambda batch: batch["length"]) as balancer:
    ...     ahead = balancer.start(Batch({"length": torch.tensor([3, 1])}, batch_size=2))
    ...     ahead.finish()["length"]
    tensor([3, 1])

    All ranks make it at the same time, and start the same number of batches, each with the same `batch_size` and
    fields. Every real row is on exactly one rank afterwards, the real ones first; a batch whose ranks are even enough
    comes back as it is. Errors that all ranks raise (costs that cannot be used, batches that differ) end that batch
    alone; after any other error this balancer cannot be used again.

    Args:
        comm: The ranks. What this sends goes over a duplicate of it.
        cost: Gives one number, at least 0, for each row of a batch, or for each real one. `paceline.balance` has
            usual ones: `lambda batch: quadratic(batch["tokens"].lengths, width=256)`.
        route: How rows travel.
        method: How groups are found; see `partition`.
        tolerance: By how much, relative to the bound, the heaviest rank may exceed it. If larger, fewer rows move.
        host: Where this rank lives: a name that the ranks of one host share. Found out if not given. Where there are
            several, rows cross between them only for what a host cannot even out by itself.
        host_bytes_limit: Bytes of rows that a host sends to others in a step at the most, and receives from them.
        seconds_per_cost: What a unit of cost takes a rank. If given, rows move only where that saves more time than
            moving has taken in earlier steps, or a rank would have no real row while another has two.
        on_step: Called with the statistics of each step when its batch is finished, by `over`.
    """

    def __init__(
        self,
        comm: Comm,
        cost: CostFunction,
        *,
        route: Route | str = Route.AUTO,
        method: Method | str = Method.AUTO,
        tolerance: float = 1e-3,
        host: str | None = None,
        host_bytes_limit: int | None = None,
        seconds_per_cost: float | None = None,
        on_step: Callable[[StepStatistics], None] | None = None,
    ) -> None:
        self._route = choice(Route, "route", route)
        self._rules = StepRules(
            method=choice(Method, "method", method), tolerance=tolerance, host_bytes_limit=host_bytes_limit
        )
        if self._route is Route.ALL_GATHER and host_bytes_limit is not None:
            raise InputError("route 'all_gather' sends all rows to all hosts, and cannot keep host_bytes_limit")
        if host is not None and not isinstance(host, str):
            raise InputError(f"host must be the name of a host, got {host!r}")
        self._cost, self._on_step = cost, on_step
        self._host = host_identity() if host is None else host
        self._price, self._look = MovePrice(seconds_per_cost), LookPrice()
        self._settings = f"route {self._route.value}, {self._rules}, seconds_per_cost {seconds_per_cost!r}"
        self._ahead = RunAhead(comm, "paceline-balance")

    def start(self, batch: Batch, *, problem: str = "", num_left: int = 0) -> Balancing:
        """Begin to balance a batch; returns at once. Costs are asked for here, in the caller's thread.

        The batch is read later: its memory must not be used for something else before `finish`.

        Args:
            batch: This rank's rows.
            problem: Why this rank cannot continue: then `finish` raises on all ranks.
            num_left: How many batches have not been balanced since the last that was, because that did not pay.
        """
        costs = RowCosts(numbers=np.zeros(batch.batch_size, np.int64), problem=problem)
        costs = costs if problem else row_costs(self._cost, batch)
        work = self._ahead.start(batch, lambda: self._exchange(batch, costs, num_left), lambda done: [done[0]])
        return Balancing(work)

    def over(self, batches: Iterable[Batch], *, ahead: int = 1) -> Iterator[Batch]:
        """Yield balanced batches; while one is used, the next `ahead` are balanced.

        Args:
            batches: The same number on every rank.
            ahead: Batches under way besides the one in use.
        """
        for under_way, balanced in finished_ahead(self.start, batches, ahead):
            if self._on_step is not None:
                self._on_step(under_way.statistics)
            yield balanced

    def close(self, *, wait: bool = True) -> None:
        """End the thread after what is under way; or abandon it, if peers may never come."""
        self._ahead.close(wait=wait)

    def _exchange(self, batch: Batch, own_costs: RowCosts, num_left: int) -> tuple[Batch, StepStatistics]:
        comm, began = self._ahead.comm, time.perf_counter()
        costs = gather_costs(
            comm, batch, own_costs, self._settings,
            host=self._host, move_nanoseconds=self._price.nanoseconds, look_nanoseconds=self._look.nanoseconds,
        )  # fmt: skip
        self._price.leave_alone(num_left)
        row_bytes = gather_row_bytes(comm, batch) if costs.has_several_hosts else None
        parts, now = cut_step(costs, row_bytes, self._rules), loads_now(costs)
        num_moved, saved = num_real_moved(costs, parts), float(now.max() - parts.loads.max()) / costs.factor
        self._look.note(time.perf_counter() - began)
        does_pay = num_moved == 0 or costs.has_rank_without_rows or self._price.pays(saved, costs.move_nanoseconds)
        if not does_pay:
            parts, num_moved = left_alone(costs, parts), 0
        balanced, route, bytes_sent, crossing = batch, None, 0, 0
        if num_moved:
            route = self._route if self._route is not Route.AUTO else self._best_route(costs)
            balanced, bytes_sent = self._send(route, batch, costs, parts)
            if route is Route.ALL_GATHER:
                crossing = _all_to_other_hosts(costs)
            elif row_bytes is not None:
                crossing = bytes_between_hosts(costs, row_bytes, parts)
        statistics = StepStatistics(
            imbalance_before=float(now.max() / now.mean()) if now.any() else 1.0,
            imbalance_after=parts.max_over_mean, max_over_bound=parts.max_over_bound, num_moved=num_moved,
            did_not_pay=not does_pay, steps_to_leave=self._steps_to_leave(costs, saved if num_moved else 0.0),
            bytes_sent=bytes_sent, bytes_between_hosts=crossing, route=route,
            seconds_hidden=0.0, seconds_waited=0.0,
        )  # fmt: skip
        return balanced, statistics

    def _steps_to_leave(self, costs: GlobalCosts, saved: float) -> int:
        gained = self._price.gain(saved, costs.move_nanoseconds)
        return 0 if gained is None else self._look.steps_to_leave(gained, costs.look_nanoseconds)

    def _best_route(self, costs: GlobalCosts) -> Route:
        """Choose by bytes, which all ranks know: one call for all where everything fits into its first message."""
        if self._rules.host_bytes_limit is not None:
            return Route.ALL_TO_ALL
        room = gather_message_bytes(self._ahead.comm.world_size) - _HEADER_BYTES
        return Route.ALL_GATHER if max(costs.num_bytes) <= room else Route.ALL_TO_ALL

    def _send(self, route: Route, batch: Batch, costs: GlobalCosts, parts: Partition) -> tuple[Batch, int]:
        began = time.perf_counter()
        try:
            return self._send_now(route, batch, costs, parts)
        finally:
            self._price.note(time.perf_counter() - began)

    def _send_now(self, route: Route, batch: Batch, costs: GlobalCosts, parts: Partition) -> tuple[Batch, int]:
        comm = self._ahead.comm
        if route is Route.ALL_TO_ALL:
            return exchange_counted(comm, batch, parts.groups)
        gathered = gather_batches(comm, batch)
        group = parts.groups[comm.rank]
        rank, row = np.divmod(group[costs.real[group]], batch.batch_size)
        starts = np.cumsum([0, *costs.num_real[:-1]])  # only real rows were gathered
        bytes_sent = bytes_in(batch) * (comm.world_size - 1)
        if rank.size == 0:
            return batch.emptied(batch.batch_size), bytes_sent
        return gathered.select(torch.from_numpy(starts[rank] + row)).pad_to(batch.batch_size), bytes_sent


def _all_to_other_hosts(costs: GlobalCosts) -> int:
    """Return the bytes between hosts if every rank sends all its rows to all others."""
    others = [len(costs.hosts) - costs.hosts.count(host) for host in costs.hosts]
    return sum(num_bytes * count for num_bytes, count in zip(costs.num_bytes, others, strict=True))
