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

from paceline.batch import Batch, UnknownDtypeError, as_batch
from paceline.errors import InputError
from paceline.loader.agreement.problem import Problem

_EXAMPLES = 64  # samples to look at for the dtype of lists that are all empty


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
        place: With epoch and first sample it seeds what is drawn at random while loading; None leaves that as it is.
    """

    def __init__(
        self, dataset: Any, collate: Callable[[list[Any]], Any], *, on_error: OnError, place: str | None
    ) -> None:
        self._dataset, self._collate, self._on_error, self._place = dataset, collate, on_error, place

    def __getitem__(self, ask: Ask) -> Loaded:
        if self._place is None:
            return self._load(ask)
        # the first sample stands for the step: it is the same after a resume
        with _random_numbers_of(f"{self._place} {ask.epoch} {ask.ids[:1]}"):
            return self._load(ask)

    def _load(self, ask: Ask) -> Loaded:
        try:
            batch = self._batch(self._samples(ask.ids), ask.num_rows) if ask.ids else None
            return Loaded(batch=batch, ids=ask.ids, num_rows=ask.num_rows)
        except Exception as error:
            whole = Problem.of(error)
        nothing = Loaded(batch=None, ids=[], num_rows=ask.num_rows)
        # now one by one, to know which sample it is
        samples, ids, skipped = [], [], []
        for sample in ask.ids:
            loaded = self._alone(sample)
            if not isinstance(loaded, Problem):
                samples.append(loaded)
                ids.append(sample)
            elif self._on_error is OnError.RAISE:
                return replace(nothing, problem=loaded)
            else:
                skipped.append((sample, loaded.text))
        nothing = replace(nothing, skipped=skipped)
        if not samples:
            return nothing
        try:
            return replace(nothing, batch=self._batch(samples, ask.num_rows), ids=ids)
        except Exception:  # each can be loaded by itself, so it is not one sample
            return replace(nothing, problem=whole)

    def _samples(self, ids: list[int]) -> list[Any]:
        if hasattr(self._dataset, "__getitems__"):
            samples = self._dataset.__getitems__(ids) if ids else []
            if len(samples) != len(ids):
                raise InputError(f"the dataset was asked for {len(ids)} samples and gave {len(samples)}")
            return list(samples)
        return [self._dataset[sample] for sample in ids]

    def _alone(self, sample: int) -> Any:
        """Return a sample that can be loaded and collated, or the problem with it."""
        try:
            (loaded,) = self._samples([sample])
            self._batch([loaded], 1)
        except Exception as error:
            return Problem.of(error, sample=sample)
        return loaded

    def _batch(self, samples: list[Any], num_rows: int) -> Batch:
        try:
            made = self._collate(samples)
        except UnknownDtypeError:
            if not self._learn():
                raise
            made = self._collate(samples)
        return as_made(made, len(samples)).pad_to(num_rows)

    def _learn(self) -> bool:
        """Find a sample whose lists have values, and so a dtype: some from all over the dataset are looked at."""
        length = len(self._dataset)
        for sample in range(0, length, max(1, length // _EXAMPLES)):
            try:
                self._collate(self._samples([sample]))
            except Exception:  # not this one
                continue
            return True
        return False


def as_made(made: Any, num_samples: int) -> Batch:
    """Return what a collate function has made as a batch without padding; it must have a row for each sample."""
    batch = made if isinstance(made, Batch) else as_batch(made)
    if batch.num_real != num_samples:
        raise InputError(f"the collate function made {batch.num_real} real rows of {num_samples} samples")
    return batch


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
