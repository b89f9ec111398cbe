"""Measures what a rank does in each step before it needs the others, and compares ranks from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from paceline.comm import Comm
from paceline.errors import whole_number
from paceline.frameworks.step_work import WorkSummary, summarise_work
from paceline.loader.loss import seconds_in_counts


class WorkMeter:
    """The work of this rank, step by step, and that of all ranks once they have compared.

    Args:
        comm: The ranks.
        every: Steps after which they compare, by one small gather.
        device: Where times are put for the gather: a GPU if the carrier carries nothing else.
        clock: Returns the time, in seconds.
        waited: Returns for how many seconds this rank has waited for others so far; that is not work.
    """

    def __init__(
        self,
        comm: Comm,
        *,
        every: int,
        device: torch.device | str = "cpu",
        clock: Callable[[], float] = time.perf_counter,
        waited: Callable[[], float] = seconds_in_counts,
    ) -> None:
        self._comm, self._device = comm, device
        self._every = whole_number("every", every, least=1)
        self._clock, self._waited = clock, waited
        self._began = self._arrived = self._now()
        self._seconds: list[float] = []  # of this rank, since ranks last compared
        self._tables: list[torch.Tensor] = []  # of the epoch, from all ranks: (rank, step)

    def begin_epoch(self) -> None:
        """Forget what was measured, and begin a step."""
        self._tables, self._seconds = [], []
        self.begin_step()

    def begin_step(self) -> None:
        """Begin to measure a step: all ranks are about here."""
        self._began = self._arrived = self._now()

    def arrive(self) -> None:
        """Note that this rank needs the others from now on; of several times in a step the last counts."""
        self._arrived = self._now()

    def end_step(self) -> WorkSummary | None:
        """End a step, and begin the next; return what the last steps say, if ranks compare now."""
        self._seconds.append(self._arrived - self._began)
        summary = summarise_work(self._gather()) if len(self._seconds) == self._every else None
        self.begin_step()
        return summary

    def end_epoch(self) -> WorkSummary | None:
        """Compare the rest; return what the whole epoch says."""
        self._gather()
        return summarise_work(torch.cat(self._tables, dim=1))

    def _now(self) -> float:
        return self._clock() - self._waited()

    def _gather(self) -> torch.Tensor:
        """Return the work of all ranks since they last compared, (rank, step); NaN where there was no step.

        The message always has the same size, so that ranks with different numbers of steps still meet here.
        """
        own = torch.full((self._every,), torch.nan, device=self._device)
        own[: len(self._seconds)] = torch.tensor(self._seconds, device=self._device)
        self._seconds = []
        table = self._comm.all_gather(own).cpu()
        self._tables.append(table)
        return table
