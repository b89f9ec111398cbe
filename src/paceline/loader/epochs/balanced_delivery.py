"""Batches after rows have moved, each balanced while the one before is used.

Problems travel with costs. Where balancing does not pay, steps are left alone for a while: nobody asks for their costs,
and a problem is told by the alarm, one step ahead, as where nothing is balanced at all.
"""

from __future__ import annotations

from collections import deque

import torch

from paceline.loader.agreement.alarm import PassAlarm
from paceline.loader.agreement.must_agree import DisagreementError
from paceline.loader.agreement.objects import gather_problems
from paceline.loader.agreement.problem import Problem, raise_problem
from paceline.loader.epochs.delivered import DeliveredStep
from paceline.loader.epochs.pass_resources import PassResources
from paceline.loader.epochs.received_steps import ReceivedSteps
from paceline.loader.epochs.sample_balancer import BalancingSamples, SampleBalancer
from paceline.loader.epochs.step_delivery import as_loaded, skipped_in
from paceline.loader.workers.step_loader import LoadedStep

_AHEAD = 1  # batches that are balanced while another is used
_POLL_SECONDS = 0.5  # of the alarm, while rows are waited for


class BalancedDelivery:
    """Batches after rows have moved.

    Args:
        received: The steps.
        first: The first of them, on which ranks have agreed.
        num_steps: Steps of the pass.
        resources: The ranks.
        balancer: Moves the rows.
        device: The device to send from.
    """

    def __init__(
        self,
        received: ReceivedSteps,
        first: LoadedStep,
        *,
        num_steps: int,
        resources: PassResources,
        balancer: SampleBalancer,
        device: torch.device,
    ) -> None:
        self._received, self._num_steps = received, num_steps
        self._first: LoadedStep | None = first
        self._resources, self._balancer, self._device = resources, balancer, device
        self._alarm: PassAlarm | None = None
        self._under_way: deque[tuple[BalancingSamples | None, LoadedStep]] = deque()  # None: the step is left alone
        self._num_started = self._next_look = 0
        self.problem: Problem | None = None

    def take(self, step: int) -> DeliveredStep | None:
        """Return the batch of the next step; None if all ranks stop here because of a problem of a step left alone."""
        if step and self._alarm is None and self._resources.may_leave_steps:
            self._alarm = self._resources.begin_alarm()
        if self._must_stop(step):
            return None
        while self._num_started < min(self._num_steps, step + 1 + _AHEAD):
            self._start(self._num_started)
            self._num_started += 1
        balancing, loaded = self._under_way.popleft()
        if balancing is None:
            return as_loaded(loaded)
        while not balancing.wait(_POLL_SECONDS):
            if self._must_stop(step):  # the rank that is waited for has left
                return None
        return self._balanced(balancing, loaded)

    def _must_stop(self, step: int) -> bool:
        if self._alarm is None:
            return False
        self.problem = self._alarm.problem_at(step)
        if self.problem is not None and self.problem.rank == self._resources.comm.rank:
            self._alarm.announce(self.problem, has_left=True)
        return self.problem is not None

    def _start(self, step: int) -> None:
        """Load a step, and begin to balance it unless it is left alone. All ranks know the same of earlier steps.

        In the last step some ranks may have no row while others have several: rows move then at any price.
        """
        loaded, self._first = self._first or self._received.receive(step), None
        if self._alarm is not None and step < self._next_look and step + 1 < self._num_steps:
            if loaded.problem is not None:
                self._alarm.announce(loaded.problem)
            self._under_way.append((None, loaded))
            return
        batch = loaded.batch if loaded.batch is not None else self._received.padding(loaded.num_rows)
        problem = "" if loaded.problem is None else str(loaded.problem)
        self._under_way.append((self._balancer.start(batch, loaded.ids, problem=problem), loaded))

    def _balanced(self, balancing: BalancingSamples, loaded: LoadedStep) -> DeliveredStep:
        try:
            batch, ids, statistics = balancing.finish()
        except DisagreementError:
            raise_problem(
                gather_problems(self._resources.comm, loaded.problem, self._device), rank=self._resources.comm.rank
            )
            raise  # the cost function has failed, or its costs cannot be used
        if statistics.steps_to_leave:
            self._next_look = self._num_started + statistics.steps_to_leave
        return DeliveredStep(batch=batch, ids=ids, skipped=skipped_in(loaded), statistics=statistics)

    def end(self) -> None:
        """End the alarm of this pass; the balancer serves all passes."""
        if self._alarm is not None:
            self._alarm.end()
