"""Loads one rank's rows of one step: in the process itself, or in a worker of torch's DataLoader.

An error is not raised here but returned: the other ranks must learn of it.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import torch
from torch.utils.data import get_worker_info

from paceline.batch import Batch, UnknownDtypeError
from paceline.errors import InputError
from paceline.loader.agreement.problem import Problem
from paceline.loader.workers.collated_batch import CollatedBatches
from paceline.loader.workers.sent_batch import SentBatch

_EXAMPLES = 64  # samples to look at for the dtype of lists that are all empty


class OnError(StrEnum):
    """What becomes of a sample that cannot be loaded."""

    RAISE = "raise"  # every rank raises the same error
    SKIP = "skip"  # its row becomes padding, and is counted


@dataclass(slots=True, kw_only=True)
class StepRequest:
    """What to load: the rows of this rank at one step. It is not frozen: to make it would take three times as long."""

    epoch: int
    step: int
    ids: list[int]
    num_rows: int


@dataclass(slots=True, kw_only=True, eq=False)
class LoadedStep:
    """The rows of a step, or why there are none. It is not frozen, as there is one in each step.

    Attributes:
        batch: The rows, padded; None if there are none, or something went wrong.
        ids: The samples of its real rows.
        num_rows: Rows that the batch must have.
        skipped: Samples that could not be loaded, with the reason.
        problem: Why there is no batch.
    """

    batch: Batch | None
    ids: list[int]
    num_rows: int
    skipped: list[tuple[int, str]] = field(default_factory=list)
    problem: Problem | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        sent = None if self.batch is None else SentBatch(self.batch)
        return _received_step, (sent, self.ids, self.num_rows, self.skipped, self.problem)

    def pin_memory(self) -> LoadedStep:
        """Return it with the batch in pinned memory; a DataLoader calls it."""
        return self if self.batch is None else replace(self, batch=self.batch.pin_memory())


def _received_step(
    batch: Batch | None, ids: list[int], num_rows: int, skipped: list[tuple[int, str]], problem: Problem | None
) -> LoadedStep:
    return LoadedStep(batch=batch, ids=ids, num_rows=num_rows, skipped=skipped, problem=problem)


class StepLoader:
    """The dataset as workers see it: it is indexed by a step, not by a sample.

    Args:
        dataset: What is indexed by sample ids; with `__getitems__` it is asked for all of a batch at once.
        collate: Makes a batch, or a dict or dataclass of fields, of a list of samples. It need not pad.
        on_error: What becomes of a sample that cannot be loaded.
        seed: With epoch and first sample, it seeds random numbers drawn while loading; None leaves them alone.
    """

    def __init__(
        self, dataset: Any, collate: Callable[[list[Any]], Any], *, on_error: OnError, seed: str | None
    ) -> None:
        self._dataset, self._collate, self._on_error, self._seed = dataset, collate, on_error, seed
        self._collated = CollatedBatches()

    def __getitem__(self, request: StepRequest) -> LoadedStep:
        if self._seed is None:
            return self._load(request)
        # the first sample stands for the step: it is the same after a resume
        with _seeded_random_numbers(f"{self._seed} {request.epoch} {request.ids[:1]}"):
            return self._load(request)

    def _load(self, request: StepRequest) -> LoadedStep:
        try:
            batch = self._batch(self._samples(request.ids), request.num_rows) if request.ids else None
            return LoadedStep(batch=batch, ids=request.ids, num_rows=request.num_rows)
        except Exception as error:
            return self._load_one_by_one(request, Problem.of(error))

    def _load_one_by_one(self, request: StepRequest, problem: Problem) -> LoadedStep:
        """Load a step again after it has failed, to learn which samples cannot be loaded."""
        no_rows = LoadedStep(batch=None, ids=[], num_rows=request.num_rows)
        samples, ids, skipped = [], [], []
        for number in request.ids:
            sample, own_problem = self._sample_alone(number)
            if own_problem is None:
                samples.append(sample)
                ids.append(number)
            elif self._on_error is OnError.RAISE:
                return replace(no_rows, problem=own_problem)
            else:
                skipped.append((number, own_problem.text))
        no_rows = replace(no_rows, skipped=skipped)
        if not samples:
            return no_rows
        try:
            return replace(no_rows, batch=self._batch(samples, request.num_rows), ids=ids)
        except Exception:  # each can be loaded by itself, so it is not one sample
            return replace(no_rows, problem=problem)

    def _samples(self, ids: list[int]) -> list[Any]:
        if hasattr(self._dataset, "__getitems__"):
            samples = self._dataset.__getitems__(ids) if ids else []
            if len(samples) != len(ids):
                raise InputError(f"the dataset returned {len(samples)} samples for {len(ids)} ids")
            return list(samples)
        return [self._dataset[sample] for sample in ids]

    def _sample_alone(self, number: int) -> tuple[Any, Problem | None]:
        """Return a sample, and the problem with it if it cannot be loaded or collated."""
        try:
            (sample,) = self._samples([number])
            self._batch([sample], 1)
        except Exception as error:
            return None, Problem.of(error, sample=number)
        return sample, None

    def _batch(self, samples: list[Any], num_rows: int) -> Batch:
        try:
            result = self._collate(samples)
        except UnknownDtypeError:
            if not self._learn_dtypes():
                raise
            result = self._collate(samples)
        return self._collated.batch_of(result, len(samples)).pad_to(num_rows)

    def _learn_dtypes(self) -> bool:
        """Show the collate function a sample whose lists have values: some from all over the dataset are tried."""
        length = len(self._dataset)
        for sample in range(0, length, max(1, length // _EXAMPLES)):
            try:
                self._collate(self._samples([sample]))
            except Exception:  # not this one
                continue
            return True
        return False


@contextmanager
def _seeded_random_numbers(seed: str) -> Iterator[None]:
    """Seed Python's, numpy's and torch's random numbers, so that they depend on nothing else.

    In a worker they belong to loading alone; elsewhere their state is restored afterwards.
    """
    numpy_random: Any = getattr(sys.modules.get("numpy"), "random", None)
    is_worker = get_worker_info() is not None
    before: tuple[Any, ...] | None = None
    if not is_worker:
        before = random.getstate(), torch.get_rng_state(), numpy_random and numpy_random.get_state()
    number = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=8).digest(), "little")
    random.seed(number)
    torch.default_generator.manual_seed(number >> 1)
    if numpy_random:
        numpy_random.seed(number & 0xFFFFFFFF)
    try:
        yield
    finally:
        if before is not None:
            random.setstate(before[0])
            torch.set_rng_state(before[1])
            if numpy_random:
                numpy_random.set_state(before[2])
