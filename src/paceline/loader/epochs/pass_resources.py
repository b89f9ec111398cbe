"""What the passes of one loader share with the other ranks: alarm, balancer, and a communicator for their ends.

Each is made by all ranks at the same time, when a pass first needs it, and lives until the loader is closed.
"""

from __future__ import annotations

import torch

from paceline.batch import Batch
from paceline.comm import Comm
from paceline.loader.agreement.alarm import Alarm, PassAlarm
from paceline.loader.agreement.background import Closeable
from paceline.loader.epochs.sample_balancer import SampleBalancer
from paceline.loader.row_exchange.row_costs import CostFunction, gather_costs, row_costs


class PassResources(Closeable):
    """Makes what passes need, once ranks have agreed that all of them need it.

    Args:
        comm: The ranks.
        cost: Returns what the rows of a batch cost; None if nothing is to be balanced.
        seconds_per_cost: What a unit of cost takes a rank; None if that is not known.
        grace: Seconds that a rank has to return to its loader after another has left the loop.
    """

    def __init__(self, comm: Comm, *, cost: CostFunction | None, seconds_per_cost: float | None, grace: float) -> None:
        self.comm = comm
        self._cost, self._seconds_per_cost = cost, seconds_per_cost
        self._grace = grace
        self._alarm: Alarm | None = None
        self._balancer: SampleBalancer | None = None
        self._end_comm: Comm | None = None

    @property
    def may_leave_steps(self) -> bool:
        """Whether steps may be left alone where balancing them does not pay."""
        return self._seconds_per_cost is not None

    def begin_alarm(self, device: torch.device) -> PassAlarm:
        """Return the alarm of a pass that has begun. All ranks ask for it at the same step, and send from a device."""
        if self._alarm is None:
            self._alarm = Alarm(self.comm, self._grace, device)
            # later it may be too late: to make it is a collective, and ranks stop at different points after an error.
            # torch makes a group by way of its store, whatever else is under way, and slowly: so only if it is needed
            if self.comm.carrier != "torch":
                self.end_comm()
        return self._alarm.begin()

    def end_comm(self) -> Comm:
        """Return the same ranks on a communicator for the ends of passes. All ranks ask for it the first time.

        Some rank may still wait in a collective of the job, until the alarm ends it.
        """
        if self._end_comm is None:  # torch makes no group of a part of the job without the other ranks
            needs_own = self.comm.carrier != "torch" or self.comm.is_whole_job
            self._end_comm = self.comm.duplicate() if needs_own else self.comm
        return self._end_comm

    def balancer(self) -> SampleBalancer | None:
        """Return the balancer; None without a cost function. All ranks ask for it the first time."""
        if self._balancer is None and self._cost is not None:
            self._balancer = SampleBalancer(self.comm, self._cost, seconds_per_cost=self._seconds_per_cost)
        return self._balancer

    def check_costs(self, batch: Batch) -> None:
        """Ask the cost function of a rank that is alone, which moves no rows.

        Raises:
            DisagreementError: It has raised, or its costs cannot be used; as on several ranks.
        """
        if self._cost is not None:
            gather_costs(self.comm, batch, row_costs(self._cost, batch), settings="")

    def close(self, *, wait: bool = True) -> None:
        """End the balancer, and release the rest if all ranks close at the same time (`wait`)."""
        if self._balancer is not None:
            self._balancer.close(wait=wait)
        if wait:
            if self._end_comm is not None and self._end_comm is not self.comm:
                self._end_comm.free()
            if self._alarm is not None:
                self._alarm.close()
        self._balancer = self._alarm = self._end_comm = None
