"""Loads one rank's rows of one step: in the process itself, or in a worker of torch's DataLoader.

What goes wrong is not raised here but carried back: the other ranks must be told.
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

from paceline.batch import Batch, Collate, UnknownDtypeError, as_batch
from paceline.errors import InputError
from paceline.loader.problem import Problem

_EXAMPLES = 16  # samples to look at for the dtype of lists that are all empty


class OnError(StrEnum):
    """What becomes of a sample that cannot be loaded."""

    RAISE = "raise"  # every rank raises the same error
    SKIP = "skip"  # its row becomes padding, and is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What is to be loaded: the rows of this rank at one step."""

    epoch: int
    step: int
    ids: list[int]
    num_rows: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Loaded:
    """What came of it.

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

    def pin_memory(self) -> Loaded:
        """Return it with the batch in pinned memory; a DataLoader calls it."""
        return self if self.batch is None else replace(self, batch=self.batch.pin_memory())


class Source:
    """The dataset as workers see it: it is asked for a step, not for a sample.

    Args:
        dataset: What is indexed by sample ids; with `__getitems__` it is asked for all of a batch at once.
        collate: Makes a batch, or a dict or dataclass of fields, of a list of samples.
        on_error: What becomes of a sample that cannot be loaded.
        place: With epoch and step it seeds what is drawn at random while loading; None leaves that as it is.
    """

    def __init__(
        self, dataset: Any, collate: Callable[[list[Any]], Any], *, on_error: OnError, place: str | None
    ) -> None:
        self._dataset, self._collate, self._on_error, self._place = dataset, collate, on_error, place

    def __getitem__(self, ask: Ask) -> Loaded:
        if self._place is None:
            return self._load(ask)
        with _random_numbers_of(f"{self._place} {ask.epoch} {ask.step}"):
            return self._load(ask)

    def _load(self, ask: Ask) -> Loaded:
        skipped: list[tuple[int, str]] = []
        nothing = Loaded(batch=None, ids=[], num_rows=ask.num_rows, skipped=skipped)
        try:
            samples, ids = self._samples(ask.ids), ask.ids
        except Exception as error:
            samples, ids = [], []
            for sample, loaded in self._one_by_one(ask.ids):
                if not isinstance(loaded, Problem):
                    samples.append(loaded)
                    ids.append(sample)
                elif self._on_error is OnError.RAISE:
                    return replace(nothing, problem=loaded)
                else:
                    skipped.append((sample, loaded.text))
            if len(ids) == len(ask.ids):  # each can be loaded by itself, so skipping would not help
                return replace(nothing, problem=Problem.of(error))
        if not samples:
            return nothing
        try:
            return replace(nothing, batch=self._batch(samples, ask.num_rows), ids=ids)
        except Exception as error:
            return replace(nothing, problem=Problem.of(error))

    def _samples(self, ids: list[int]) -> list[Any]:
        if hasattr(self._dataset, "__getitems__"):
            samples = self._dataset.__getitems__(ids) if ids else []
            if len(samples) != len(ids):
                raise InputError(f"the dataset was asked for {len(ids)} samples and gave {len(samples)}")
            return list(samples)
        return [self._dataset[sample] for sample in ids]

    def _one_by_one(self, ids: list[int]) -> Iterator[tuple[int, Any]]:
        """Yield each sample, or the problem with it."""
        for sample in ids:
            try:
                yield sample, self._samples([sample])[0]
            except Exception as error:
                yield sample, Problem.of(error, sample=sample)

    def _batch(self, samples: list[Any], num_rows: int) -> Batch:
        try:
            made = self._collate(samples)
        except UnknownDtypeError:
            if not self._learn():
                raise
            made = self._collate(samples)
        batch = made if isinstance(made, Batch) else as_batch(made)
        if batch.num_real != len(samples):
            raise InputError(f"the collate function made {batch.num_real} real rows of {len(samples)} samples")
        return batch.pad_to(num_rows)

    def _learn(self) -> bool:
        """Find a sample whose lists have values, and so a dtype."""
        for _, sample in self._one_by_one(list(range(min(_EXAMPLES, len(self._dataset))))):
            if isinstance(self._collate, Collate) and not isinstance(sample, Problem):
                try:
                    self._collate([sample])
                except UnknownDtypeError:
                    continue
                return True
        return False


@contextmanager
def _random_numbers_of(place: str) -> Iterator[None]:
    """Seed Python's, numpy's and torch's random numbers by a place, so that they depend on nothing else.

    In a worker they belong to loading alone; elsewhere they are put back.
    """
    numpy_random: Any = getattr(sys.modules.get("numpy"), "random", None)
    is_worker = get_worker_info() is not None
    kept = None if is_worker else (random.getstate(), torch.get_rng_state(), numpy_random and numpy_random.get_state())
    number = int.from_bytes(hashlib.blake2b(place.encode(), digest_size=8).digest(), "little")
    random.seed(number)
    torch.default_generator.manual_seed(number >> 1)
    if numpy_random:
        numpy_random.seed(number & 0xFFFFFFFF)
    try:
        yield
    finally:
        if kept is not None:
            random.setstate(kept[0])
            torch.set_rng_state(kept[1])
            if numpy_random:
                numpy_random.set_state(kept[2])
