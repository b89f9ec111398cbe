"""Rows of a batch as bytes, and back: all fields in one buffer, so no dtype changes and a few calls move everything.

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
from paceline.batch.memory import (
    Memory,
    bytes_of,
    joined,
    lists_of,
    numbers_of,
    scaled,
    starts_of,
    taken,
    tensor_of,
    together,
    viewed,
)
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

    arena: Memory
    sizes: Memory
    starts: Memory


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """Rows of some schema: what has a fixed size, as (row, byte), and the lists of the jagged fields, if any."""

    fixed: Memory
    lists: Lists | None = None

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(self.fixed.shape[0])

    def select(self, order: NDArray[np.int64]) -> Rows:
        """Return these rows in this order; the arena is shared."""
        fixed = taken(self.fixed, order)
        if self.lists is None:
            return Rows(fixed=fixed)
        sizes, starts = taken(self.lists.sizes, order), taken(self.lists.starts, order)
        return Rows(fixed=fixed, lists=Lists(arena=self.lists.arena, sizes=sizes, starts=starts))

    def head(self, count: int) -> Rows:
        """Return the first rows; the arena is shared."""
        if self.lists is None:
            return Rows(fixed=self.fixed[:count])
        lists = Lists(arena=self.lists.arena, sizes=self.lists.sizes[:count], starts=self.lists.starts[:count])
        return Rows(fixed=self.fixed[:count], lists=lists)

    def join(self, other: Rows) -> Rows:
        """Return the rows of both, which must have the same schema."""
        fixed = joined([self.fixed, other.fixed])
        if self.lists is None or other.lists is None:
            return Rows(fixed=fixed)
        lists = Lists(
            arena=joined([self.lists.arena, other.lists.arena]),
            sizes=joined([self.lists.sizes, other.lists.sizes]),
            starts=joined([self.lists.starts, other.lists.starts + len(self.lists.arena)]),
        )
        return Rows(fixed=fixed, lists=lists)


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
            return Rows(fixed=joined(lines, 1))
        return Rows(fixed=bytes_of(torch.zeros(0, device=batch.device)).reshape(num_rows, 0))
    fields = [_jagged(batch, field) for field, _ in layout.jagged]
    grids = [numbers_of(field.lengths).reshape(len(field.keys), num_rows) for field in fields]
    lengths = together(joined(grids).T)  # (row, column)
    sizes = scaled(lengths, layout.columns, layout.units_per_value)
    pieces = [bytes_of(tensor) for field in fields for tensor in (field.values, field.weights) if tensor is not None]
    return Rows(
        fixed=joined([*lines, viewed(lengths, 1)], 1),
        lists=Lists(
            arena=viewed(joined(pieces), layout.unit),
            sizes=sizes,
            starts=starts_of(together(sizes.T)).T,  # a batch has its lists key after key, not row after row
        ),
    )


def bytes_per_row(batch: Batch) -> NDArray[np.int64]:
    """Return the bytes that each row of a batch takes in a parcel. Without jagged fields all take the same."""
    layout = _format_of(batch.schema())
    numbers = np.full(batch.batch_size, layout.fixed_bytes, np.int64)
    for field, _ in layout.jagged:
        lengths = _jagged(batch, field).lengths.view(len(field.keys), -1).sum(0).cpu().numpy()
        numbers += lengths * (field.values.row_bytes + (0 if field.weights is None else field.weights.row_bytes))
    return numbers


def pack(rows: Rows, counts: Sequence[int]) -> list[Memory]:
    """Return consecutive rows as parcels of bytes, with counts[i] rows in parcel i."""
    parcels, begin, at = [], 0, 0
    flat = together(rows.fixed).reshape(-1)
    width = rows.fixed.shape[1]
    arena: Memory = None if rows.lists is None else lists_of(rows.lists.arena, rows.lists.starts, rows.lists.sizes)
    for count in counts:
        parcel = flat[begin * width : (begin + count) * width]
        if rows.lists is not None:
            size = int(rows.lists.sizes[begin : begin + count].sum())
            parcel = joined([parcel, viewed(arena[at : at + size], 1)])
            at += size
        parcels.append(parcel)
        begin += count
    return parcels


def unpack(schema: Schema, parcels: Sequence[Memory], counts: Sequence[int]) -> Rows:
    """Return the rows of the parcels, one parcel after the other; the reverse of `pack`."""
    layout = _format_of(schema)
    ends = [count * layout.fixed_bytes for count in counts]
    fixed = joined([parcel[:end] for parcel, end in zip(parcels, ends, strict=True)])
    fixed = together(fixed).reshape(sum(counts), layout.fixed_bytes)
    if not layout.jagged:
        return Rows(fixed=fixed)
    arena = joined([parcel[end:] for parcel, end in zip(parcels, ends, strict=True)])
    lengths = viewed(together(fixed[:, layout.dense_bytes :]), 8)
    sizes = scaled(lengths, layout.columns, layout.units_per_value)
    lists = Lists(arena=viewed(_aligned(arena), layout.unit), sizes=sizes, starts=starts_of(sizes))
    return Rows(fixed=fixed, lists=lists)


def unpack_fields(schema: Schema, rows: Rows) -> dict[str, torch.Tensor | Jagged]:
    """Return the fields that the rows hold."""
    layout, num_rows = _format_of(schema), rows.num_rows
    fields: dict[str, torch.Tensor | Jagged] = {}
    for field, begin, end in layout.dense:
        content = together(rows.fixed[:, begin:end]).reshape(-1)
        fields[field.name] = tensor_of(content, field.values.dtype, (num_rows, *field.values.trailing))
    if rows.lists is None:
        return fields
    sizes, starts = together(rows.lists.sizes.T), rows.lists.starts.T  # (list, row)
    content = viewed(lists_of(rows.lists.arena, starts, sizes), 1)
    lengths = together(viewed(together(rows.fixed[:, layout.dense_bytes :]), 8).T)
    tensors, at = [], 0
    for tensor, column, num_keys in layout.tensors:
        num_values = int(lengths[column : column + num_keys].sum())
        size = num_values * tensor.row_bytes
        shape = (num_values, *tensor.trailing)
        tensors.append(tensor_of(together(content[at : at + size]), tensor.dtype, shape))
        at += size
    remaining = iter(tensors)
    for field, column in layout.jagged:
        assert field.lengths is not None  # it is jagged
        grid = lengths[column : column + len(field.keys)]
        # copied, because torch refuses an array whose lines are an odd number of bytes apart, even a single line
        as_tensor = torch.from_numpy(grid.copy()) if isinstance(grid, np.ndarray) else grid
        values = next(remaining)
        weights = None if field.weights is None else next(remaining)
        flat = as_tensor.to(field.lengths.dtype).view(-1)
        fields[field.name] = Jagged.unchecked(field.keys, values, flat, weights)
    return fields


def _aligned(memory: Memory) -> Memory:
    """Return bytes at an address that is aligned for numbers: a slice of a message can start anywhere."""
    if isinstance(memory, np.ndarray):
        return memory if memory.ctypes.data % 8 == 0 else memory.copy()
    return memory  # `viewed` takes care of it


def _dense(batch: Batch, field: FieldSchema) -> torch.Tensor:
    content = batch[field.name]
    assert isinstance(content, torch.Tensor)  # the schema says so
    return content


def _jagged(batch: Batch, field: FieldSchema) -> Jagged:
    content = batch[field.name]
    assert isinstance(content, Jagged)  # the schema says so
    return content
