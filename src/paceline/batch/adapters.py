"""Batches from what people have: dicts and dataclasses of tensors, and lists of samples."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from paceline.batch.batch import Batch
from paceline.batch.jagged import Jagged
from paceline.errors import InputError, whole_number


def as_batch(source: Any, *, num_real: int | None = None, pad_values: Mapping[str, float] | None = None) -> Batch:
    """Return a batch of the fields of a dict or a dataclass; its size is that of its fields.

    >>> as_batch({"x": torch.zeros(3, 2), "y": torch.zeros(3)}).batch_size
    3
    """
    named = _named(source)
    if named is None:
        raise InputError(f"expected a dict or a dataclass of tensors, got {type(source).__name__}")
    if not named:
        raise InputError("there is no field to make a batch of")
    first = next(iter(named.values()))
    if isinstance(first, torch.Tensor):
        size = first.size(0)
    elif isinstance(first, Jagged):
        size = first.batch_size
    else:
        size = first.stride()
    return Batch(named, batch_size=size, num_real=num_real, pad_values=pad_values)


class Collate:
    """A `collate_fn` for DataLoader: stacks samples to a batch of always `batch_size` rows.

    Samples are dicts or dataclasses. A jagged field holds, in each sample, a list of values, or a dict of such lists
    by key; its length may differ between samples and may be 0. All other fields are stacked.

    >>> collate = Collate(batch_size=3, jagged=["history"])
    >>> batch = collate([{"label": 1.0, "history": [5, 6]}, {"label": 0.0, "history": []}])
    >>> batch
    Batch(3 rows, 2 real)
      label    dense float32
      history  jagged history; 3 rows, 2 values int64

    Args:
        batch_size: Rows of every batch; fewer samples are padded, more are an error.
        jagged: Names of the jagged fields.
        pad_values: What padding rows of a dense field hold, where it is not 0.
        example: A sample. From it comes the shape of a batch of no sample at all, which the tail `pad` can give
            to some ranks in the last step. Without it, the first batch that has samples is remembered.
    """

    def __init__(
        self,
        batch_size: int,
        *,
        jagged: Collection[str] = (),
        pad_values: Mapping[str, float] | None = None,
        example: Any = None,
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size, least=1)
        self._jagged = frozenset(jagged)
        self._pad_values = dict(pad_values or {})
        self._empty: Batch | None = None
        if example is not None:
            self([example])

    def __call__(self, samples: Sequence[Any]) -> Batch:
        """Return the batch of the samples."""
        if len(samples) > self.batch_size:
            raise InputError(f"{len(samples)} samples are more than batch_size {self.batch_size}")
        if not samples:
            if self._empty is None:
                raise InputError("a batch of no sample has no shape: give Collate an example of a sample")
            return self._empty.emptied(self.batch_size)
        rows = [_named(sample) for sample in samples]
        if any(row is None for row in rows):
            raise InputError(f"samples must be dicts or dataclasses, got {type(samples[0]).__name__}")
        columns = {name: self._column(name, [row[name] for row in rows if row]) for name in rows[0] or {}}
        pad_values = {name: value for name, value in self._pad_values.items() if name in columns}
        batch = Batch(columns, batch_size=len(samples), pad_values=pad_values).pad_to(self.batch_size)
        if self._empty is None:
            self._empty = batch.emptied(self.batch_size)
        return batch

    def _column(self, name: str, values: list[Any]) -> torch.Tensor | Jagged:
        if name in self._jagged:
            known = self._empty[name] if self._empty is not None and name in self._empty else None
            return _jagged_column(name, values, known.values.dtype if isinstance(known, Jagged) else None)
        tensors = [_tensor(value) for value in values]
        shapes = {tuple(tensor.shape) for tensor in tensors}
        if len(shapes) > 1:
            raise InputError(f"field {name!r} has samples of shapes {sorted(shapes)}: declare it as jagged, or pad it")
        return torch.stack(tensors)


def _jagged_column(name: str, values: list[Any], dtype: torch.dtype | None) -> Jagged:
    """Put lists together. An empty Python list has no dtype of its own: it takes that of the others, or the known."""
    by_key = [value if isinstance(value, Mapping) else {name: value} for value in values]
    keys = list(by_key[0])
    if any(list(row) != keys for row in by_key):
        raise InputError(f"field {name!r} has samples with other keys than {keys}")
    given = [row[key] for key in keys for row in by_key]
    lists = [_tensor(part) for part in given]
    told = [part for part, source in zip(lists, given, strict=True) if part.shape[0] or hasattr(source, "dtype")]
    kinds = {part.dtype for part in told}
    if len(kinds) > 1:
        raise InputError(f"field {name!r} has lists of several dtypes: {sorted(map(str, kinds))}")
    if told:
        joined = torch.cat(told)
    elif dtype is not None:
        joined = torch.cat(lists).to(dtype)
    else:
        raise InputError(
            f"field {name!r} has only empty lists, so its dtype is not known: give Collate an example with values"
        )
    return Jagged(keys=keys, values=joined, lengths=torch.tensor([part.shape[0] for part in lists]))


def _tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.as_tensor(value)


def _named(source: Any) -> dict[str, Any] | None:
    if isinstance(source, Mapping):
        return dict(source)
    if is_dataclass(source) and not isinstance(source, type):
        return {field.name: getattr(source, field.name) for field in fields(source)}
    return None
