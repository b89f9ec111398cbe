"""Rows of a batch in the host's memory, sent as parcels of bytes: compiled functions copy them from field to parcel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from paceline.batch.batch import Batch
from paceline.batch.fields import Field
from paceline.batch.jagged import Jagged
from paceline.batch.memory import bytes_of
from paceline.batch.schema import FieldSchema, TensorSchema
from paceline.compiled import extension

# what numpy has too: these need not be seen as bytes first
_PLAIN = {torch.float32, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}


class HostRows:
    """The rows of one batch.

    Args:
        batch: The batch.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        dense, jagged = [], []  # in the order of the schema, which is that of all ranks
        for field in batch.schema():
            content = batch[field.name]
            if isinstance(content, Jagged):
                jagged.append(_lists_of(field, content))
            else:
                dense.append(_memory_of(content))
        self._dense, self._jagged = tuple(dense), tuple(jagged)

    def pack(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
        """Return rows as parcels: the first counts[0] of them, then counts[1], and so on."""
        parcels = extension.pack_rows(self._dense, self._jagged, self._batch.batch_size, rows, counts)
        return [np.frombuffer(parcel, np.uint8) for parcel in parcels]

    def arrange(
        self, order: NDArray[np.int64], parcels: Sequence[Any], counts: NDArray[np.int64], num_rows: int
    ) -> Batch:
        """Return a batch of own and received rows.

        Args:
            order: The real rows: own ones by their number, received ones counted from `batch_size` on.
            parcels: What was received, with counts[i] rows in parcel i.
            counts: Rows of each parcel.
            num_rows: Rows of the new batch, padding included.
        """
        batch, schema = self._batch, self._batch.schema()
        made = iter(
            extension.arrange_rows(self._dense, self._jagged, batch.batch_size, (*parcels,), counts, order, num_rows)
        )
        fields: dict[str, Field] = {}
        for field in schema:
            if field.lengths is None:
                dense = _rows_of(next(made), field.values, num_rows)
                if field.name in batch.pad_values:
                    dense[len(order) :] = batch.pad_values[field.name]
                fields[field.name] = dense
        for field in schema:
            if field.lengths is not None:
                fields[field.name] = _jagged_of(made, field)
        return batch.like({name: fields[name] for name in batch.names()}, num_rows, num_real=len(order))


def _memory_of(tensor: torch.Tensor) -> Any:
    """Return the memory of a tensor as an array."""
    if tensor.dtype in _PLAIN and tensor.is_contiguous() and not tensor.requires_grad and not tensor.is_neg():
        return tensor.numpy()
    return bytes_of(tensor).numpy()


def _lists_of(field: FieldSchema, content: Jagged) -> tuple[Any, ...]:
    lengths = content.lengths.contiguous().numpy().astype(np.int64, copy=False)
    if not lengths.flags.aligned:  # they may lie anywhere in a mapped file
        lengths = lengths.copy()
    values = (_memory_of(content.values), field.values.row_bytes)
    if content.weights is None or field.weights is None:
        return lengths, *values
    return lengths, *values, _memory_of(content.weights), field.weights.row_bytes


def _jagged_of(made: Iterator[bytearray], field: FieldSchema) -> Jagged:
    assert field.lengths is not None  # it is jagged
    lengths = torch.frombuffer(next(made), dtype=torch.int64)
    values, weights = (
        None if part is None else _values_of(next(made), part, lengths) for part in (field.values, field.weights)
    )
    assert values is not None  # it has a schema
    return Jagged.unchecked(field.keys, values, lengths.to(field.lengths.dtype), weights)


def _values_of(memory: bytearray, schema: TensorSchema, lengths: torch.Tensor) -> torch.Tensor:
    # where a value takes no memory, only the lengths say how many there are
    return _rows_of(memory, schema, len(memory) // schema.row_bytes if schema.row_bytes else int(lengths.sum()))


def _rows_of(memory: bytearray, schema: TensorSchema, num_rows: int) -> torch.Tensor:
    shape = (num_rows, *schema.trailing)
    if not memory:  # torch refuses it
        return torch.empty(shape, dtype=schema.dtype)
    return torch.frombuffer(memory, dtype=schema.dtype).view(shape)
