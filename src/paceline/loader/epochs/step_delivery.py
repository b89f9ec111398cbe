"""How the batch of a step gets to the loop, so that a problem of one rank stops all ranks at the same step.

There are three ways. A rank that is alone raises it. Ranks whose batches stay where they are learn of it by the alarm,
one step ahead. Ranks whose rows move learn of it from the message that carries their costs: `balanced_delivery`.
"""

from __future__ import annotations

from typing import Protocol

import torch

from paceline.loader.agreement.alarm import PassAlarm
from paceline.loader.agreement.batch_form import BatchForm
from paceline.loader.agreement.must_agree import DisagreementError, MustAgree
from paceline.loader.agreement.objects import gather_problems
from paceline.loader.agreement.problem import Problem, raise_problem
from paceline.loader.epochs.delivered import DeliveredStep
from paceline.loader.epochs.loader_settings import Check
from paceline.loader.epochs.pass_resources import PassResources
from paceline.loader.epochs.received_steps import ReceivedSteps
from paceline.loader.epochs.step_report import StepReport, compare_steps
from paceline.loader.workers.step_loader import LoadedStep


class StepDelivery(Protocol):
    """One of the three ways."""

    problem: Problem | None  # because of which all ranks stop, without having raised yet
    failure: DisagreementError | None  # the same, where no rank has a problem with its samples

    def take(self, step: int) -> DeliveredStep | None:
        """Return the batch of the next step; None if all ranks stop here because of a problem."""

    def settle(self) -> None:
        """Wait for what is under way, once all ranks have met at the end of the pass."""

    def end(self) -> None:
        """Release what the pass has, also after an error."""


class AloneDelivery:
    """Batches of the only rank: a problem is raised where it occurs.

    Args:
        received: The steps.
        first: The first of them.
        resources: What knows the cost function: it is asked here too, so that a wrong one shows on one rank already.
    """

    problem: Problem | None = None
    failure: DisagreementError | None = None

    def __init__(self, received: ReceivedSteps, first: LoadedStep, resources: PassResources) -> None:
        self._received, self._resources = received, resources
        self._first: LoadedStep | None = first

    def take(self, step: int) -> DeliveredStep:
        """Return the batch of the next step."""
        loaded, self._first = self._first or self._received.receive(step), None
        raise_problem([loaded.problem], rank=self._resources.comm.rank)
        delivered = as_loaded(loaded)
        self._resources.check_costs(delivered.batch)
        return delivered

    def settle(self) -> None:
        """Nothing is under way."""

    def end(self) -> None:
        """Nothing is to be released."""


class AlarmedDelivery:
    """Batches as they are loaded. Each is looked at one step ahead, so that other ranks hear of a problem in time.

    Args:
        received: The steps.
        first: The first of them, on which ranks have agreed.
        num_steps: Steps of the pass.
        resources: What makes the alarm.
        check: When ranks compare.
        device: The device to send from.
    """

    failure: DisagreementError | None = None

    def __init__(
        self,
        received: ReceivedSteps,
        first: LoadedStep,
        *,
        num_steps: int,
        resources: PassResources,
        check: Check,
        device: torch.device,
    ) -> None:
        self._received, self._num_steps = received, num_steps
        self._resources, self._check, self._device = resources, check, device
        self._alarm: PassAlarm | None = None
        self._ahead: LoadedStep | None = first
        self.problem: Problem | None = None

    def take(self, step: int) -> DeliveredStep | None:
        """Return the batch of the next step."""
        if step == 0:
            loaded, self._ahead = self._ahead, None
            assert loaded is not None  # given at the beginning
            return as_loaded(loaded)
        if self._alarm is None:  # nobody needs it before the first batch is handed out
            self._alarm = self._resources.begin_alarm(self._device)
        self.problem = self._alarm.problem_at(step)
        if self.problem is not None:
            if self.problem.rank == self._resources.comm.rank:
                self._alarm.announce(self.problem, has_left=True)
            return None
        loaded = self._ahead or self._received.receive(step)
        self._look_ahead(step, self._alarm)
        self._agree(step, loaded)
        return as_loaded(loaded)

    def _look_ahead(self, step: int, alarm: PassAlarm) -> None:
        """Load the step after this one; if it has a problem, tell the others before this one is handed out."""
        self._ahead = self._received.receive(step + 1) if step + 1 < self._num_steps else None
        if self._ahead is not None and self._ahead.problem is not None:
            alarm.announce(self._ahead.problem)

    def _agree(self, step: int, loaded: LoadedStep) -> None:
        if self._check is Check.EVERY:
            form = compare_steps(self._resources.comm, report_of(loaded, MustAgree(chosen={})), self._device)
            assert form is not None  # known since the first step, and steps without a sample have it
            self._received.learn(form)
        elif step == 1:  # the only step that nobody has looked at ahead
            raise_problem(
                gather_problems(self._resources.comm, loaded.problem, self._device), rank=self._resources.comm.rank
            )

    def settle(self) -> None:
        """Nothing is under way."""

    def end(self) -> None:
        """End the alarm of this pass."""
        if self._alarm is not None:
            self._alarm.end()


def report_of(loaded: LoadedStep, must_agree: MustAgree) -> StepReport:
    """Return what this rank says of a step: also the rows of its batch must be the same on all ranks."""
    derived = {**must_agree.derived, "rows of the batch": f"{loaded.num_rows}"}
    return StepReport(
        must_agree=MustAgree(chosen=must_agree.chosen, derived=derived),
        form=None if loaded.batch is None else BatchForm.of(loaded.batch),
        problem=loaded.problem,
    )


def as_loaded(loaded: LoadedStep) -> DeliveredStep:
    """Return the rows of a step where they were loaded."""
    assert loaded.batch is not None  # problems were raised, on all ranks
    return DeliveredStep(batch=loaded.batch, ids=loaded.ids, skipped=skipped_in(loaded))


def skipped_in(loaded: LoadedStep) -> tuple[int, ...]:
    """Return the samples of a step that were left out."""
    return tuple(sample for sample, _ in loaded.skipped) if loaded.skipped else ()
