"""The steps of a pass as this rank loads them: each has a batch, or the problem because of which it has none.

Nothing is raised here: a problem of one rank must reach all ranks at the same step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from paceline.batch import Batch
from paceline.batch.schema import Schema
from paceline.loader.agreement.batch_form import BatchForm
from paceline.loader.agreement.problem import Problem
from paceline.loader.epochs.epoch_summary import Tally
from paceline.loader.workers.step_loader import LoadedStep


class ReceivedSteps:
    """Takes loaded steps one by one, moves them to their device and completes them.

    Args:
        steps: The steps, as they are loaded.
        rank: This rank.
        epoch: The epoch of the pass.
        device: Where batches are put; None leaves them.
        compares_fields: Whether the fields of each batch must be those on which ranks have agreed.
        tally: Where skipped samples are counted.
    """

    def __init__(
        self,
        steps: Iterator[LoadedStep],
        *,
        rank: int,
        epoch: int,
        device: torch.device | None,
        compares_fields: bool,
        tally: Tally,
    ) -> None:
        self._steps, self._rank, self._epoch, self._device = steps, rank, epoch, device
        self._compares_fields, self._tally = compares_fields, tally
        self._padding: Batch | None = None  # one row of padding with the fields on which ranks agree
        self._found_right: Schema | None = None  # of a batch that had these fields; others often share the object

    def learn(self, form: BatchForm) -> None:
        """Take the fields on which ranks agree: steps without a sample get them, others are compared with them."""
        self._padding, self._found_right = form.padding_rows(1), None

    def receive(self, step: int) -> LoadedStep:
        """Return the next step. If it has a problem, that has rank, epoch and step."""
        try:
            loaded = next(self._steps)
            if loaded.batch is not None and self._device is not None:
                loaded = replace(loaded, batch=loaded.batch.to(self._device, non_blocking=True))
        except Exception as error:  # of the workers themselves: one was killed, or is too late
            loaded = LoadedStep(batch=None, ids=[], num_rows=1, problem=Problem.of(error))
        if loaded.skipped:
            self._tally.note_skipped(loaded.skipped)
        loaded = self.complete(loaded)
        if loaded.batch is not None and self._padding is not None and self._compares_fields:
            loaded = self._compared(loaded, loaded.batch, self._padding)
        if loaded.problem is not None:
            problem = loaded.problem.at(rank=self._rank, epoch=self._epoch, step=step)
            return replace(loaded, batch=None, problem=problem)
        return loaded

    def complete(self, loaded: LoadedStep) -> LoadedStep:
        """Give a step without a sample a batch of padding, once the fields are known."""
        if loaded.batch is not None or loaded.problem is not None or self._padding is None:
            return loaded
        return replace(loaded, batch=self.padding(loaded.num_rows))

    def padding(self, num_rows: int) -> Batch:
        """Return a batch without a real row. Ranks must have agreed on its fields."""
        assert self._padding is not None
        return self._padding.emptied(num_rows, self._device)

    def _compared(self, loaded: LoadedStep, batch: Batch, padding: Batch) -> LoadedStep:
        """Give a step a problem if its fields are not those of the first step."""
        known = batch.known_schema
        if known is not None and known is self._found_right:
            return loaded
        if batch.has_fields_of(padding):
            self._found_right = known
            return loaded
        now, before = set(map(str, batch.schema())), set(map(str, padding.schema()))
        change = f"{'; '.join(sorted(now - before))}, at the first step it was {'; '.join(sorted(before - now))}"
        advice = "if they change on all ranks alike, give check='every'"
        return replace(loaded, problem=Problem(text=f"fields have changed: {change}; {advice}"))
