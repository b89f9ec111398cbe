"""Batches of equal shape: `batch_size` rows in every field, of which the first `num_real` are real.

Padding is carried as a number and never guessed: a real row may be all zeros or have no values. What a batch
must keep is checked once, when it is built; every operation keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from paceline.batch.fields import Field, as_field, check_padding, check_rows, is_alike, plain_number
from paceline.batch.jagged import Jagged
from paceline.batch.schema import Schema, schema_of
from paceline.errors import InputError, whole_number


class Batch:
    """Fields that all have the same number of rows, the real ones first.

    >>> batch = Batch({"label": torch.tensor([1.0, 0.0])}, batch_size=2).pad_to(4)
    >>> batch
    Batch(4 rows, 2 real)
      label  dense float32
    >>> batch["label"], batch.real("label")
    (tensor([1., 0., 0., 0.]), tensor([1., 0.]))

    Args:
        fields: Dense fields (a tensor whose first dimension is `batch_size`) and jagged ones (`Jagged`, or anything
            with the methods of a KeyedJaggedTensor).
        batch_size: Rows of every field.
        num_real: How many of them are real; all if not given.
        pad_values: What the padding rows of a dense field hold, if not 0.
    """

    __slots__ = ("_fields", "_schema", "batch_size", "num_real", "pad_values")

    def __init__(
        self,
        fields: Mapping[str, Any],
        *,
        batch_size: int,
        num_real: int | None = None,
        pad_values: Mapping[str, float] | None = None,
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size, least=1)
        self.num_real = whole_number(
            "num_real", self.batch_size if num_real is None else num_real, least=0, most=self.batch_size
        )
        if not fields:
            raise InputError("a batch needs at least one field")
        self._fields = {name: as_field(name, field) for name, field in fields.items()}
        self.pad_values = _padding_of(pad_values or {})
        if unknown := sorted(set(pad_values or {}) - set(self._fields)):
            raise InputError(
                f"pad_values names fields that the batch does not have: {unknown}; it has {sorted(self._fields)}"
            )
        for name, field in self._fields.items():
            check_rows(name, field, self.batch_size)
            check_padding(name, field, self.num_real, self.pad_values.get(name, 0))
        self._schema: Schema | None = None

    def _with(self, fields: dict[str, Field], batch_size: int, num_real: int) -> Batch:
        """Make a batch that is right by construction; nothing is checked again."""
        batch = object.__new__(Batch)
        batch._fields, batch.batch_size, batch.num_real = fields, batch_size, num_real
        batch.pad_values, batch._schema = self.pad_values, self._schema
        return batch

    @staticmethod
    def unchecked(fields: dict[str, Field], num_rows: int, pad_values: Mapping[str, float]) -> Batch:
        """Make a batch of fields with `num_rows` rows each, all real. Nothing is checked."""
        batch = object.__new__(Batch)
        batch._fields, batch.batch_size, batch.num_real = fields, num_rows, num_rows
        batch.pad_values, batch._schema = _padding_of(pad_values), None
        return batch

    def __reduce__(self) -> tuple[Any, ...]:
        # without the schema: to send it from a worker takes longer than to look at the fields again
        return _restored, (self._fields, self.batch_size, self.num_real, self.pad_values)

    def like(self, fields: dict[str, Field], num_rows: int, *, num_real: int | None = None) -> Batch:
        """Make a batch of the same schema from fields with `num_rows` rows, by default all real. Nothing is checked."""
        return self._with(fields, num_rows, num_rows if num_real is None else num_real)

    def emptied(self, num_rows: int, device: torch.device | str | None = None) -> Batch:
        """Return a batch of the same schema with `num_rows` rows of padding; on the same device, if none is given."""
        fields: dict[str, Field] = {}
        for name, field in self._fields.items():
            if isinstance(field, Jagged):
                fields[name] = field.emptied(num_rows, device)
            else:
                shape = (num_rows, *field.shape[1:])
                fields[name] = field.new_full(shape, self.pad_values.get(name, 0), device=device)
        return self._with(fields, num_rows, 0)

    # Reading fields and rows.

    def __getitem__(self, name: str) -> Field:
        """Return a field with its padding."""
        if name not in self._fields:
            raise KeyError(f"there is no field {name!r}, only {', '.join(self._fields)}")
        return self._fields[name]

    def real(self, name: str) -> Field:
        """Return the real rows of a field, in the same memory."""
        field = self[name]
        return field.narrow(self.num_real) if isinstance(field, Jagged) else field[: self.num_real]

    def names(self) -> list[str]:
        """Return the names of the fields."""
        return list(self._fields)

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the real rows: a tensor for each dense field, a dict of tensors by key for each jagged one."""
        lists = {
            name: {key: field[key] for key in field.keys}
            for name, field in self._fields.items()
            if isinstance(field, Jagged)
        }
        for row in range(self.num_real):
            yield {
                name: field[row]
                if isinstance(field, torch.Tensor)
                else {key: values[row] for key, values in lists[name].items()}
                for name, field in self._fields.items()
            }

    @property
    def device(self) -> torch.device:
        """Where the first field is."""
        return next(iter(self._fields.values())).device

    def schema(self) -> Schema:
        """Return names, kinds, dtypes and trailing shapes: what batches must share to be put together."""
        if self._schema is None:
            self._schema = schema_of(self._fields)
        return self._schema

    @property
    def known_schema(self) -> Schema | None:
        """The schema, if it has been computed: batches made alike share one object."""
        return self._schema

    def has_fields_of(self, other: Batch) -> bool:
        """Say whether the schemas are equal, much faster than by comparing them if one is not computed yet."""
        if self._fields.keys() != other._fields.keys():
            return False
        return all(is_alike(field, other._fields[name]) for name, field in self._fields.items())

    def padding(self) -> tuple[tuple[str, str], ...]:
        """Return the pad values in a form that can be compared, even if one of them is NaN."""
        return tuple((name, repr(float(value))) for name, value in sorted(self.pad_values.items()))

    def to_dict(self) -> dict[str, Field]:
        """Return the fields with their padding."""
        return dict(self._fields)

    def with_field(self, name: str, field: Any) -> Batch:
        """Return the batch with a field added, or replaced if there is one of this name."""
        added = as_field(name, field)
        check_rows(name, added, self.batch_size)
        check_padding(name, added, self.num_real, self.pad_values.get(name, 0))
        batch = self._with({**self._fields, name: added}, self.batch_size, self.num_real)
        batch._schema = None
        return batch

    def without(self, name: str) -> Batch:
        """Return the batch without a field."""
        self[name]  # raises if there is none
        batch = self._with(
            {other: field for other, field in self._fields.items() if other != name}, self.batch_size, self.num_real
        )
        batch.pad_values = {other: value for other, value in self.pad_values.items() if other != name}
        batch._schema = None
        return batch

    # Adding, selecting and joining rows.

    def pad_to(self, num_rows: int) -> Batch:
        """Return the batch with `num_rows` rows: padding rows are added or removed."""
        num_rows = whole_number("num_rows", num_rows, least=max(1, self.num_real))
        if num_rows == self.batch_size:
            return self
        fields: dict[str, Field] = {}
        for name, field in self._fields.items():
            if num_rows < self.batch_size:
                fields[name] = field.narrow(num_rows) if isinstance(field, Jagged) else field[:num_rows]
            elif isinstance(field, Jagged):
                fields[name] = field.pad(num_rows)
            else:
                shape = (num_rows - self.batch_size, *field.shape[1:])
                fields[name] = torch.cat([field, field.new_full(shape, self.pad_values.get(name, 0))])
        return self._with(fields, num_rows, self.num_real)

    def select(self, indices: Sequence[int] | torch.Tensor) -> Batch:
        """Return these rows: the real ones in the given order, then any padding among them."""
        rows = torch.as_tensor(indices, device=self.device).reshape(-1)
        if rows.numel() == 0:
            raise InputError("select needs at least one row")
        if rows.dtype is torch.bool or rows.is_floating_point() or rows.is_complex():
            raise InputError(f"rows must be whole numbers, got {rows.dtype}; to select by a mask, pass mask.nonzero()")
        rows = rows.to(torch.int64)
        listed = rows.tolist()
        if min(listed) < 0 or max(listed) >= self.batch_size:
            wrong = next(row for row in listed if not 0 <= row < self.batch_size)
            raise InputError(f"rows must be from 0 to {self.batch_size - 1}, got {wrong}")
        num_real = sum(row < self.num_real for row in listed)
        if num_real < len(listed):
            rows = torch.cat([rows[rows < self.num_real], rows[rows >= self.num_real]])
        fields: dict[str, Field] = {
            name: field.select(rows) if isinstance(field, Jagged) else field.index_select(0, rows)
            for name, field in self._fields.items()
        }
        return self._with(fields, len(listed), num_real)

    def split(self, num_rows: int) -> list[Batch]:
        """Return batches of `num_rows` consecutive rows; the last may be shorter."""
        num_rows = whole_number("num_rows", num_rows, least=1)
        every = torch.arange(self.batch_size, device=self.device)
        return [self.select(part) for part in torch.split(every, num_rows)]

    @staticmethod
    def concat(batches: Sequence[Batch]) -> Batch:
        """Return one batch of all rows: the real ones of each batch in order, then the padding."""
        if not batches:
            raise InputError("concat needs at least one batch")
        first = batches[0]
        for index, batch in enumerate(batches):
            if batch.schema() != first.schema():
                raise InputError(f"batch {index} differs from batch 0 in its fields: {_difference(batch, first)}")
            if batch.padding() != first.padding():
                raise InputError(f"batch {index} pads with {batch.pad_values}, batch 0 with {first.pad_values}")
        fields: dict[str, Field] = {}
        for name, field in first._fields.items():
            parts = [batch._fields[name] for batch in batches]
            if isinstance(field, Jagged):
                real = [batch.real(name) for batch in batches]
                joined = Jagged.concat([part for part in real if isinstance(part, Jagged)])
                fields[name] = joined.pad(sum(batch.batch_size for batch in batches))
            else:
                dense = [part for part in parts if isinstance(part, torch.Tensor)]
                real_rows = [part[: batch.num_real] for part, batch in zip(dense, batches, strict=True)]
                padding = [part[batch.num_real :] for part, batch in zip(dense, batches, strict=True)]
                fields[name] = torch.cat([*real_rows, *padding])
        return first._with(fields, sum(batch.batch_size for batch in batches), sum(batch.num_real for batch in batches))

    # Moving between devices.

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        """Return the batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Return the batch in pinned memory; a DataLoader calls it by itself."""
        return self._map(lambda tensor: tensor.pin_memory())

    def record_stream(self, stream: Any) -> None:
        """Keep the memory until the stream has passed this point."""

        def record(tensor: torch.Tensor) -> torch.Tensor:
            tensor.record_stream(stream)
            return tensor

        self._map(record)

    def _map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Batch:
        fields: dict[str, Field] = {
            name: field.map(function) if isinstance(field, Jagged) else function(field)
            for name, field in self._fields.items()
        }
        return self._with(fields, self.batch_size, self.num_real)

    def __repr__(self) -> str:
        width = max(map(len, self._fields))
        lines = [f"Batch({self.batch_size} rows, {self.num_real} real)"]
        for name, field in self._fields.items():
            if isinstance(field, Jagged):
                text = f"jagged {repr(field).removeprefix('Jagged(').removesuffix(')')}"
            else:
                shape = f" {list(field.shape[1:])}" if field.dim() > 1 else ""
                text = f"dense {str(field.dtype).removeprefix('torch.')}{shape}"
            lines.append(f"  {name.ljust(width)}  {text}")
        return "\n".join(lines)


def _padding_of(pad_values: Mapping[str, float]) -> dict[str, float]:
    return {name: plain_number(value) for name, value in pad_values.items() if value != 0}


def _restored(fields: dict[str, Field], batch_size: int, num_real: int, pad_values: dict[str, float]) -> Batch:
    """Return a batch as it was before it was pickled."""
    batch = Batch.unchecked(fields, batch_size, pad_values)
    batch.num_real = num_real
    return batch


def _difference(batch: Batch, other: Batch) -> str:
    fields, others = set(map(str, batch.schema())), set(map(str, other.schema()))
    extra, missing = "; ".join(sorted(fields - others)), "; ".join(sorted(others - fields))
    return f"{extra or 'nothing'} instead of {missing or 'nothing'}"
