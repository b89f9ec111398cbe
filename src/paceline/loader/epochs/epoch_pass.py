"""One pass over an epoch: hands out what this rank has loaded in step with the others, or all ranks raise at once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from paceline.comm import CommError
from paceline.errors import InputError
from paceline.loader.agreement.first_message import gather_json
from paceline.loader.agreement.must_agree import MustAgree
from paceline.loader.agreement.problem import LoadError, Problem, raise_problem
from paceline.loader.epochs.balanced_delivery import BalancedDelivery
from paceline.loader.epochs.delivered import DeliveredStep
from paceline.loader.epochs.epoch_summary import EpochSummary, Tally, summarise
from paceline.loader.epochs.loader_settings import Check
from paceline.loader.epochs.pass_resources import PassResources
from paceline.loader.epochs.received_steps import ReceivedSteps
from paceline.loader.epochs.step_delivery import (
    AlarmedDelivery,
    AloneDelivery,
    StepDelivery,
    report_of,
)
from paceline.loader.epochs.step_report import StepReport, compare_steps
from paceline.loader.sampler_state import PlannedPass
from paceline.loader.workers.step_loader import LoadedStep


class EpochPass:
    """One pass: ranks compare what must agree, then make its steps, then tell each other what became of it.

    Args:
        planned: The pass, as the sampler plans it.
        resources: The ranks, and what passes share with them.
        must_agree: What must be the same on all ranks.
        check: When ranks compare.
        device: Where batches are put; None leaves them.
    """

    def __init__(
        self,
        planned: PlannedPass,
        resources: PassResources,
        *,
        must_agree: MustAgree,
        check: Check,
        device: torch.device | None,
    ) -> None:
        self._planned, self._resources, self._must_agree = planned, resources, must_agree
        self._check, self._device = check, device
        self._sent_from = device or torch.device("cpu")
        self._tally = Tally()
        self.summary: EpochSummary | None = None  # once the pass has come to its end

    def over(self, steps: Iterator[LoadedStep]) -> Iterator[DeliveredStep]:
        """Yield this rank's batches. All ranks ask for each."""
        began = asked = time.perf_counter()
        received = ReceivedSteps(
            steps,
            rank=self._resources.comm.rank,
            epoch=self._planned.epoch,
            device=self._device,
            compares_fields=self._check is Check.FIRST,
            tally=self._tally,
        )
        delivery = self._begin(received)
        if delivery is None:  # there is no step
            self._end(None)
            return
        try:
            for step in range(self._planned.num_steps):
                delivered = delivery.take(step)
                if delivered is None:
                    break
                delivered.seconds_waited = time.perf_counter() - asked
                self._tally.note_step(delivered.seconds_waited, delivered.statistics)
                yield delivered
                del delivered  # so that its batch can go as soon as the loop has no use for it
                asked = time.perf_counter()
                self._tally.seconds = asked - began
            self._end(delivery)
        finally:
            delivery.end()

    def _begin(self, received: ReceivedSteps) -> StepDelivery | None:
        """Load the first step, compare it with those of the other ranks, and return how steps are delivered."""
        comm, num_steps = self._resources.comm, self._planned.num_steps
        if not num_steps:
            compare_steps(comm, StepReport(must_agree=self._must_agree), self._sent_from)
            return None
        first = received.receive(0)
        form = compare_steps(comm, report_of(first, self._must_agree), self._sent_from)
        if form is None:
            reasons = "; ".join(f"sample {sample}: {text}" for sample, text in self._tally.skipped[:3])
            raise InputError(
                f"no sample of the first step could be loaded, on any rank: {reasons or 'other ranks name the reasons'}"
            )
        received.learn(form)
        first = received.complete(first)
        if comm.world_size == 1:
            return AloneDelivery(received, first, self._resources)
        # only now is it certain that all ranks have a cost function, or none
        balancer = self._resources.balancer()
        if balancer is None:
            return AlarmedDelivery(
                received, first,
                num_steps=num_steps, resources=self._resources, check=self._check, device=self._sent_from,
            )  # fmt: skip
        return BalancedDelivery(
            received, first,
            num_steps=num_steps, resources=self._resources, balancer=balancer, device=self._sent_from,
            # they are not compared with those of other ranks
            may_leave_steps=self._resources.may_leave_steps and self._check is not Check.EVERY,
        )  # fmt: skip

    def _end(self, delivery: StepDelivery | None) -> None:
        """Meet all ranks at the end of the pass, wherever that is: they may have heard of a problem at different steps.

        It takes a communicator of its own: a rank may still wait in a collective of the job, until its alarm ends it.
        """
        tallies, problem = [self._tally], None if delivery is None else delivery.problem
        if self._resources.comm.world_size > 1:
            try:
                own_end = [self._tally.to_json(), problem and problem.to_json()]
                ends = gather_json(self._resources.end_comm(), own_end, self._sent_from)
            except CommError as error:
                if problem is None:
                    raise
                raise LoadError(problem, is_of_another_rank=problem.rank != self._resources.comm.rank) from error
            if delivery is not None:
                delivery.settle()
            raise_problem((Problem.from_json(each) for _, each in ends), rank=self._resources.comm.rank)
            if delivery is not None and delivery.failure is not None:
                raise delivery.failure
            tallies = [Tally.from_json(tally) for tally, _ in ends]
        plan = self._planned.plan
        self.summary = summarise(tallies, epoch=self._planned.epoch, counts=None if plan is None else plan.summary())
