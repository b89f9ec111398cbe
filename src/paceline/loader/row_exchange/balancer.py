"""Re-deals the rows of each step between ranks, so that all have the same work, while the step before computes.

Everything that communicates runs in one thread on communicators of its own, in the order in which batches were
started. So it cannot be mixed up with the user's collectives, and ranks may finish batches in any order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import torch

from paceline.balance import Method, Partition, partition
from paceline.batch.batch import Batch
from paceline.comm import Comm, CommError
from paceline.errors import InputError, choice, whole_number
from paceline.loader.agreement.background import Background, Closeable
from paceline.loader.agreement.first_message import gather_message_bytes
from paceline.loader.agreement.must_agree import DisagreementError
from paceline.loader.row_exchange.batch_collectives import exchange_counted, gather_batches
from paceline.loader.row_exchange.row_costs import (
    CostFunction,
    Costs,
    GlobalCosts,
    RowCosts,
    bytes_in,
    gather_costs,
    row_costs,
)

_cuda: Any = torch.cuda
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
        bytes_sent: Bytes that this rank sent for it.
        route: How rows travelled; None if none moved.
        seconds_hidden: How long the work for this step, including waiting for slower ranks, ran while the caller did
            something else.
        seconds_waited: How long the caller waited for it, and for earlier batches.
    """

    imbalance_before: float
    imbalance_after: float
    max_over_bound: float
    num_moved: int
    bytes_sent: int
    route: Route | None
    seconds_hidden: float
    seconds_waited: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _BalancedBatch:
    """A batch after balancing, and when the work for it was done."""

    batch: Batch
    statistics: StepStatistics  # without times
    start: float
    end: float
    ready: Any = None  # an event of the side stream, on a GPU


class Balancing:
    """A batch that is being balanced."""

    def __init__(self, work: Future[_BalancedBatch], blocked: float = 0.0) -> None:
        self._work, self._blocked = work, blocked  # blocked: seconds for which the caller has waited already
        self._statistics: StepStatistics | None = None

    @property
    def is_done(self) -> bool:
        """Whether `finish` would return at once."""
        return self._work.done()

    def finish(self) -> Batch:
        """Return this rank's rows after balancing; wait for them if need be. May be called again."""
        asked = time.perf_counter()
        done = self._work.result()
        waited = time.perf_counter() - asked + self._blocked
        if done.ready is not None:
            stream = _cuda.current_stream(done.batch.device)
            stream.wait_event(done.ready)
            done.batch.record_stream(stream)
        if self._statistics is None:
            hidden = 0.0 if self._blocked else max(0.0, min(done.end, asked) - done.start)
            self._statistics = replace(done.statistics, seconds_hidden=hidden, seconds_waited=waited)
        return done.batch

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
        on_step: Callable[[StepStatistics], None] | None = None,
    ) -> None:
        self._route, self._method = choice(Route, "route", route), choice(Method, "method", method)
        if not 0 <= tolerance < float("inf"):
            raise InputError(f"tolerance must be a number of at least 0, got {tolerance!r}")
        self._cost, self._tolerance, self._on_step = cost, tolerance, on_step
        self._comm = comm.duplicate()
        self._settings = f"route {self._route.value}, method {self._method.value}, tolerance {tolerance!r}"
        # some MPIs take calls from one thread only: then there is nothing to overlap
        self._background = Background("paceline-balance") if comm.is_thread_safe else None
        self._stream: Any = None
        self._broken: BaseException | None = None
        self._is_closed = False

    def start(self, batch: Batch, *, problem: str = "") -> Balancing:
        """Begin to balance a batch; returns at once. Costs are asked for here, in the caller's thread.

        The batch is read later: its memory must not be used for something else before `finish`.

        Args:
            batch: This rank's rows.
            problem: Why this rank cannot continue: then `finish` raises on all ranks.
        """
        costs = RowCosts(numbers=np.zeros(batch.batch_size, np.int64), problem=problem)
        costs = costs if problem else row_costs(self._cost, batch)
        ready = self._mark(batch)
        if self._background is not None:
            return Balancing(self._background.submit(self._balance, batch, costs, ready))
        work: Future[_BalancedBatch] = Future()
        start = time.perf_counter()
        try:
            work.set_result(self._balance(batch, costs, ready))
        except Exception as error:
            work.set_exception(error)
        return Balancing(work, blocked=time.perf_counter() - start)

    def over(self, batches: Iterable[Batch], *, ahead: int = 1) -> Iterator[Batch]:
        """Yield balanced batches; while one is used, the next `ahead` are balanced.

        Args:
            batches: The same number on every rank.
            ahead: Batches under way besides the one in use.
        """
        ahead = whole_number("ahead", ahead, least=0)
        pending: deque[Balancing] = deque()
        source, is_left = iter(batches), True
        while is_left or pending:
            while is_left and len(pending) <= ahead:
                batch = next(source, None)
                if batch is None:
                    is_left = False
                else:
                    pending.append(self.start(batch))
            if pending:
                first = pending.popleft()
                balanced = first.finish()
                if self._on_step is not None:
                    self._on_step(first.statistics)
                yield balanced

    def close(self, *, wait: bool = True) -> None:
        """End the thread after what is under way; or abandon it, if peers may never come."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._background is not None:
            self._background.close(wait=wait)
        if wait:
            self._comm.free()

    def _balance(self, batch: Batch, costs: RowCosts, ready: Any) -> _BalancedBatch:
        if self._broken is not None:
            raise CommError(f"an earlier batch failed on this rank alone: {self._broken}") from self._broken
        try:
            return self._balance_now(batch, costs, ready)
        except (DisagreementError, InputError):
            raise  # every rank has raised it, so all continue with the next batch
        except BaseException as error:
            self._broken = error  # others may be in the middle of this batch: another one must not be mixed up with it
            raise

    def _balance_now(self, batch: Batch, costs: RowCosts, ready: Any) -> _BalancedBatch:
        start = time.perf_counter()
        if ready is None:
            balanced, statistics = self._exchange(batch, costs)
            return _BalancedBatch(batch=balanced, statistics=statistics, start=start, end=time.perf_counter())
        with _cuda.stream(self._stream):
            self._stream.wait_event(ready)
            balanced, statistics = self._exchange(batch, costs)
            batch.record_stream(self._stream)
            done = _cuda.Event()
            done.record(self._stream)
        return _BalancedBatch(batch=balanced, statistics=statistics, start=start, end=time.perf_counter(), ready=done)

    def _mark(self, batch: Batch) -> Any:
        """On a GPU: note how far the caller's stream must have come before the batch may be read."""
        if batch.device.type != "cuda":
            return None
        if self._stream is None:
            self._stream = _cuda.Stream(batch.device)
        event = _cuda.Event()
        event.record(_cuda.current_stream(batch.device))
        return event

    def _exchange(self, batch: Batch, own_costs: RowCosts) -> tuple[Batch, StepStatistics]:
        comm = self._comm
        costs = gather_costs(comm, batch, own_costs, self._settings)
        placement = np.repeat(np.arange(comm.world_size), batch.batch_size)
        parts = self._cut(costs, placement)
        before = np.bincount(placement, weights=costs.costs, minlength=comm.world_size)
        num_moved = sum(
            int((costs.real[group] & (placement[group] != rank)).sum()) for rank, group in enumerate(parts.groups)
        )
        balanced, route, bytes_sent = batch, None, 0
        if num_moved:
            route = self._route if self._route is not Route.AUTO else self._best_route(costs)
            balanced, bytes_sent = self._send(route, batch, costs, parts)
        statistics = StepStatistics(
            imbalance_before=float(before.max() / before.mean()) if before.any() else 1.0,
            imbalance_after=parts.max_over_mean, max_over_bound=parts.max_over_bound, num_moved=num_moved,
            bytes_sent=bytes_sent, route=route, seconds_hidden=0.0, seconds_waited=0.0,
        )  # fmt: skip
        return balanced, statistics

    def _cut(self, costs: GlobalCosts, placement: Costs) -> Partition:
        """Find the groups. What is even enough stays as it is, whatever the method."""

        def cut(method: Method) -> Partition:
            return partition(
                costs.costs, self._comm.world_size, method, placement, real=costs.real, tolerance=self._tolerance
            )

        in_place = cut(Method.AUTO if self._method is Method.AUTO else Method.SWAP_IN_PLACE)
        return in_place if in_place.num_moved == 0 or self._method is Method.AUTO else cut(self._method)

    def _best_route(self, costs: GlobalCosts) -> Route:
        """Choose by bytes, which all ranks know: one call for all where everything fits into its first message."""
        room = gather_message_bytes(self._comm.world_size) - _HEADER_BYTES
        return Route.ALL_GATHER if max(costs.num_bytes) <= room else Route.ALL_TO_ALL

    def _send(self, route: Route, batch: Batch, costs: GlobalCosts, parts: Partition) -> tuple[Batch, int]:
        comm = self._comm
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
