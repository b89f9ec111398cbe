"""Batches after rows have moved, each balanced while the one before is used.

Problems travel with costs. Where balancing does not pay, steps are left alone for a while: nobody asks for their costs,
and a problem is told by the alarm, one step ahead, as where nothing is balanced at all. A rank that runs ahead may have
asked for the costs of later steps before it hears of that. So all ranks ask for those, and are told the problem: no
question is left open that a later pass, or the end of the job, could run into.
"""

from __future__ import annotations

from collections import deque

import torch

from paceline.loader.agreement.alarm import PassAlarm
from paceline.loader.agreement.must_agree import DisagreementError
from paceline.loader.agreement.problem import Problem
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
        may_leave_steps: Whether steps may be left alone where it does not pay to balance them.
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
        may_leave_steps: bool,
        device: torch.device,
    ) -> None:
        self._received, self._num_steps = received, num_steps
        self._first: LoadedStep | None = first
        self._resources, self._balancer, self._device = resources, balancer, device
        self._alarm: PassAlarm | None = None
        self._under_way: deque[tuple[BalancingSamples | None, LoadedStep]] = deque()  # None: the step is left alone
        self._looks_of_others: list[BalancingSamples] = []
        self._num_started = self._num_left = self._next_look = 0
        self._may_leave_steps = may_leave_steps
        self.problem: Problem | None = None
        self.failure: DisagreementError | None = None

    def take(self, step: int) -> DeliveredStep | None:
        """Return the batch of the next step; None if all ranks stop because of a problem, here or before."""
        if step and self._alarm is None and self._may_leave_steps:
            self._alarm = self._resources.begin_alarm(self._device)
        if self._must_stop(step):
            return None
        while self._num_started < min(self._num_steps, step + 1 + _AHEAD):
            # without a thread of its own, a look has waited for all ranks: meanwhile one may have left
            if self._start(self._num_started) and self._must_stop(step):
                return None
        balancing, loaded = self._under_way[0]
        while balancing is not None and not balancing.wait(_POLL_SECONDS):
            if self._must_stop(step):  # the rank that is waited for has left
                return None
        self._under_way.popleft()
        return as_loaded(loaded) if balancing is None else self._balanced(balancing, loaded)

    def _must_stop(self, step: int) -> bool:
        if self._alarm is None:
            return False
        self.problem = self._alarm.problem_at(step)
        if self.problem is not None and self.problem.rank == self._resources.comm.rank:
            self._alarm.announce(self.problem, has_left=True)
        if self.problem is not None:
            self._begin_looks_of_others(self.problem)
        return self.problem is not None

    def _begin_looks_of_others(self, problem: Problem) -> None:
        """Begin the looks that ranks which run ahead may have begun before they hear of a problem: they fail with it.

        No rank gets beyond the first of them, and each begins those that are ahead of it.
        """
        first = min(max(self._next_look, problem.step + 1), self._num_steps - 1)
        for step in range(max(first, self._num_started), min(first + 1 + _AHEAD, self._num_steps)):
            self._looks_of_others.append(self._balancer.start(self._received.padding(1), [], problem=str(problem)))
            self._num_started = step + 1

    def _start(self, step: int) -> bool:
        """Load a step, and begin to balance it unless it is left alone; return whether it has begun.

        All ranks know the same of earlier steps, and do the same.

        In the last step some ranks may have no row while others have several: rows move then at any price.
        """
        loaded, self._first = self._first or self._received.receive(step), None
        self._num_started = step + 1
        if self._alarm is not None and step < self._next_look and step + 1 < self._num_steps:
            if loaded.problem is not None:
                self._alarm.announce(loaded.problem)
            self._under_way.append((None, loaded))
            self._num_left += 1
            return False
        batch = loaded.batch if loaded.batch is not None else self._received.padding(loaded.num_rows)
        problem = "" if loaded.problem is None else str(loaded.problem)
        balancing = self._balancer.start(batch, loaded.ids, problem=problem, num_left=self._num_left)
        self._under_way.append((balancing, loaded))
        self._num_left = 0
        return True

    def _balanced(self, balancing: BalancingSamples, loaded: LoadedStep) -> DeliveredStep | None:
        try:
            batch, ids, statistics = balancing.finish()
        except DisagreementError as error:
            # the problem may be that of an earlier step, which this rank has not heard of: at the end all ranks meet
            self.problem, self.failure = loaded.problem, error
            return None
        # a look that pays takes back what the one before it has said
        self._next_look = self._num_started + statistics.steps_to_leave if statistics.steps_to_leave else 0
        return DeliveredStep(batch=batch, ids=ids, skipped=skipped_in(loaded), statistics=statistics)

    def settle(self) -> None:
        """Wait for the looks that were begun before the pass has come to its end early: all ranks take part in them."""
        for balancing in [*(balancing for balancing, _ in self._under_way), *self._looks_of_others]:
            while balancing is not None and not balancing.wait(_POLL_SECONDS):
                pass

    def end(self) -> None:
        """End the alarm of this pass; the balancer serves all passes."""
        if self._alarm is not None:
            self._alarm.end()
