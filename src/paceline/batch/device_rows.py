"""Rows of a batch on a device, sent as parcels of bytes: few calls of torch pack all fields.

Everything of fixed size lies in a matrix with one line for each row: the dense fields, then the lengths of the jagged
ones. The rest, values and weights, lies in an arena, where a list is found by start and size. The arena counts in units
of up to eight bytes, so that the lists of all fields can be gathered by one index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from paceline.batch.batch import Batch
from paceline.batch.jagged import Jagged
from paceline.batch.memory import bytes_of, lists_of, scaled, starts_of, tensor_of, viewed
from paceline.batch.schema import FieldSchema, Schema, TensorSchema

_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lists:
    """Values and weights of all jagged fields.

    Attributes:
        arena: The content of all lists.
        sizes: Units of each list: (row, list). A list is one key of one field's values or weights.
        starts: Where each list starts in the arena: (row, list).
    """

    arena: torch.Tensor
    sizes: torch.Tensor
    starts: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Rows of some schema: what has a fixed size, as (row, byte), and the lists of the jagged fields, if any."""

    fixed: torch.Tensor
    lists: Lists | None = None

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(self.fixed.shape[0])

    def select(self, order: NDArray[np.int64]) -> Rows:
        """Return these rows in this order; the arena is shared."""
        rows = torch.from_numpy(order).to(self.fixed.device)
        fixed = self.fixed.index_select(0, rows)
        if self.lists is None:
            return Rows(fixed=fixed)
        sizes, starts = self.lists.sizes.index_select(0, rows), self.lists.starts.index_select(0, rows)
        return Rows(fixed=fixed, lists=Lists(arena=self.lists.arena, sizes=sizes, starts=starts))

    def join(self, other: Rows) -> Rows:
        """Return the rows of both, which must have the same schema."""
        fixed = torch.cat([self.fixed, other.fixed])
        if self.lists is None or other.lists is None:
            return Rows(fixed=fixed)
        lists = Lists(
            arena=torch.cat([self.lists.arena, other.lists.arena]),
            sizes=torch.cat([self.lists.sizes, other.lists.sizes]),
            starts=torch.cat([self.lists.starts, other.lists.starts + len(self.lists.arena)]),
        )
        return Rows(fixed=fixed, lists=lists)


class DeviceRows:
    """The rows of one batch in the memory of a device; `HostRows` does the same in the host's.

    Args:
        batch: The batch.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch, self._rows = batch, rows_of(batch)

    def pack(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> list[torch.Tensor]:
        """Return rows as parcels: the first counts[0] of them, then counts[1], and so on."""
        return pack(self._rows.select(rows), counts.tolist())

    def arrange(
        self, order: NDArray[np.int64], parcels: Sequence[torch.Tensor], counts: NDArray[np.int64], num_rows: int
    ) -> Batch:
        """Return a batch of own rows, by their number, and of received ones, counted from `batch_size` on."""
        batch = self._batch
        if not len(order):
            return batch.emptied(num_rows)
        rows = self._rows.join(unpack(batch.schema(), parcels, counts.tolist())) if parcels else self._rows
        fields = unpack_fields(batch.schema(), rows.select(order))
        return batch.like({name: fields[name] for name in batch.names()}, len(order)).pad_to(num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowFormat:
    """Where the fields of a schema lie.

    Attributes:
        dense: Dense fields, each with the first byte of its columns and the end of them.
        jagged: Jagged fields, each with the first of its columns of lengths.
        tensors: Values and weights of the jagged fields, each with its first column of lengths and number of keys.
        columns: The column of lengths of each list.
        units_per_value: Units of one value of each list.
        dense_bytes: Bytes of the dense fields of a row.
        fixed_bytes: Bytes of a line of the matrix.
        unit: Bytes of a unit of the arena.
    """

    dense: tuple[tuple[FieldSchema, int, int], ...]
    jagged: tuple[tuple[FieldSchema, int], ...]
    tensors: tuple[tuple[TensorSchema, int, int], ...]
    columns: tuple[int, ...]
    units_per_value: tuple[int, ...]
    dense_bytes: int
    fixed_bytes: int
    unit: int


@lru_cache(maxsize=256)
def _format_of(schema: Schema) -> _RowFormat:
    dense, jagged, tensors = [], [], []
    columns: list[int] = []
    at = column = 0
    for field in schema:
        if field.lengths is None:
            dense.append((field, at, at + field.values.row_bytes))
            at += field.values.row_bytes
            continue
        jagged.append((field, column))
        for tensor in (field.values, field.weights):
            if tensor is not None:
                tensors.append((tensor, column, len(field.keys)))
                columns += range(column, column + len(field.keys))
        column += len(field.keys)
    unit = math.gcd(8, *(tensor.row_bytes for tensor, _, _ in tensors)) if tensors else 8
    return _RowFormat(
        dense=tuple(dense),
        jagged=tuple(jagged),
        tensors=tuple(tensors),
        columns=tuple(columns),
        units_per_value=tuple(tensor.row_bytes // unit for tensor, _, num_keys in tensors for _ in range(num_keys)),
        dense_bytes=at,
        fixed_bytes=at + column * _LENGTH_BYTES,
        unit=unit,
    )


def rows_of(batch: Batch) -> Rows:
    """Return the rows of a batch, including padding."""
    layout, num_rows = _format_of(batch.schema()), batch.batch_size
    lines = [bytes_of(_dense(batch, field)).reshape(num_rows, -1) for field, begin, end in layout.dense if end > begin]
    if not layout.jagged:
        if lines:
            return Rows(fixed=torch.cat(lines, 1))
        return Rows(fixed=bytes_of(torch.zeros(0, device=batch.device)).reshape(num_rows, 0))
    fields = [_jagged(batch, field) for field, _ in layout.jagged]
    grids = [field.lengths.to(torch.int64).reshape(len(field.keys), num_rows) for field in fields]
    lengths = torch.cat(grids).T.contiguous()  # (row, column)
    sizes = scaled(lengths, layout.columns, layout.units_per_value)
    pieces = [bytes_of(tensor) for field in fields for tensor in (field.values, field.weights) if tensor is not None]
    return Rows(
        fixed=torch.cat([*lines, viewed(lengths, 1)], 1),
        lists=Lists(
            arena=viewed(torch.cat(pieces), layout.unit),
            sizes=sizes,
            starts=starts_of(sizes.T.contiguous()).T,  # a batch has its lists key after key, not row after row
        ),
    )


def pack(rows: Rows, counts: Sequence[int]) -> list[torch.Tensor]:
    """Return consecutive rows as parcels of bytes, with counts[i] rows in parcel i."""
    parcels, begin, at = [], 0, 0
    flat = rows.fixed.contiguous().reshape(-1)
    width = rows.fixed.shape[1]
    arena = None if rows.lists is None else lists_of(rows.lists.arena, rows.lists.starts, rows.lists.sizes)
    for count in counts:
        parcel = flat[begin * width : (begin + count) * width]
        if rows.lists is not None and arena is not None:
            size = int(rows.lists.sizes[begin : begin + count].sum())
            parcel = torch.cat([parcel, viewed(arena[at : at + size], 1)])
            at += size
        parcels.append(parcel)
        begin += count
    return parcels


def unpack(schema: Schema, parcels: Sequence[torch.Tensor], counts: Sequence[int]) -> Rows:
    """Return the rows of the parcels, one parcel after the other; the reverse of `pack`."""
    layout = _format_of(schema)
    ends = [count * layout.fixed_bytes for count in counts]
    fixed = torch.cat([parcel[:end] for parcel, end in zip(parcels, ends, strict=True)])
    fixed = fixed.contiguous().reshape(sum(counts), layout.fixed_bytes)
    if not layout.jagged:
        return Rows(fixed=fixed)
    arena = torch.cat([parcel[end:] for parcel, end in zip(parcels, ends, strict=True)])
    lengths = viewed(fixed[:, layout.dense_bytes :].contiguous(), 8)
    sizes = scaled(lengths, layout.columns, layout.units_per_value)
    lists = Lists(arena=viewed(arena, layout.unit), sizes=sizes, starts=starts_of(sizes))
    return Rows(fixed=fixed, lists=lists)


def unpack_fields(schema: Schema, rows: Rows) -> dict[str, torch.Tensor | Jagged]:
    """Return the fields that the rows hold."""
    layout, num_rows = _format_of(schema), rows.num_rows
    fields: dict[str, torch.Tensor | Jagged] = {}
    for field, begin, end in layout.dense:
        content = rows.fixed[:, begin:end].contiguous().reshape(-1)
        fields[field.name] = tensor_of(content, field.values.dtype, (num_rows, *field.values.trailing))
    if rows.lists is None:
        return fields
    sizes, starts = rows.lists.sizes.T.contiguous(), rows.lists.starts.T  # (list, row)
    content = viewed(lists_of(rows.lists.arena, starts, sizes), 1)
    lengths = viewed(rows.fixed[:, layout.dense_bytes :].contiguous(), 8).T.contiguous()
    tensors, at = [], 0
    for tensor, column, num_keys in layout.tensors:
        num_values = int(lengths[column : column + num_keys].sum())
        size = num_values * tensor.row_bytes
        shape = (num_values, *tensor.trailing)
        tensors.append(tensor_of(content[at : at + size].contiguous(), tensor.dtype, shape))
        at += size
    remaining = iter(tensors)
    for field, column in layout.jagged:
        assert field.lengths is not None  # it is jagged
        grid = lengths[column : column + len(field.keys)]
        values = next(remaining)
        weights = None if field.weights is None else next(remaining)
        flat = grid.to(field.lengths.dtype).view(-1)
        fields[field.name] = Jagged.unchecked(field.keys, values, flat, weights)
    return fields


def _dense(batch: Batch, field: FieldSchema) -> torch.Tensor:
    content = batch[field.name]
    assert isinstance(content, torch.Tensor)  # the schema says so
    return content


def _jagged(batch: Batch, field: FieldSchema) -> Jagged:
    content = batch[field.name]
    assert isinstance(content, Jagged)  # the schema says so
    return content
