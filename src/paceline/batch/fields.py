"""The fields of a batch: what may be one, and what is checked when a batch is built."""

from __future__ import annotations

from typing import Any

import torch

from paceline.batch.jagged import Jagged
from paceline.batch.plain_tensor import check_is_plain
from paceline.errors import InputError

Field = torch.Tensor | Jagged


def as_field(name: str, field: Any) -> Field:
    """Return what was given for a field as a tensor or as jagged, or say why it can be neither."""
    if isinstance(field, torch.Tensor):
        if field.is_nested:
            return Jagged.from_nested(field, name)
        check_is_plain(name, field)
        return field
    if all(hasattr(field, method) for method in ("keys", "values", "lengths", "weights_or_none", "stride")):
        field = Jagged.from_keyed(field)
    if isinstance(field, Jagged):
        for part in (field.values, field.lengths, field.weights):
            if part is not None:
                check_is_plain(name, part)
        return field
    raise InputError(f"field {name!r} must be a tensor or jagged, got {type(field).__name__}")


def plain_number(value: Any) -> float:
    """Return a number of numpy or torch as one of Python, which torch and JSON take everywhere."""
    plain: float = value.item() if hasattr(value, "item") else value
    return plain


def is_alike(field: Field, other: Field) -> bool:
    """Say whether two fields have the same kind, dtype, keys and shape of a row."""
    if isinstance(field, torch.Tensor) and isinstance(other, torch.Tensor):
        num_dims = field.dim()
        if field.dtype is not other.dtype or num_dims != other.dim():
            return False
        return num_dims == 1 or field.shape[1:] == other.shape[1:]
    if isinstance(field, Jagged) and isinstance(other, Jagged):
        if field.keys != other.keys or (field.weights is None) != (other.weights is None):
            return False
        pairs = [(field.values, other.values), (field.lengths, other.lengths)]
        if field.weights is not None and other.weights is not None:
            pairs.append((field.weights, other.weights))
        return all(is_alike(one, another) for one, another in pairs)
    return False


def check_rows(name: str, field: Field, batch_size: int) -> None:
    """Check that a field has as many rows as its batch."""
    rows = field.batch_size if isinstance(field, Jagged) else (field.shape[0] if field.dim() else None)
    if rows != batch_size:
        raise InputError(f"field {name!r} has {rows} rows, but batch_size is {batch_size}")


def check_padding(name: str, field: Field, num_real: int, pad_value: float) -> None:
    """Check the padding rows; on a device other than the CPU that would wait for it, so it is not done."""
    if field.device.type != "cpu":
        return
    if isinstance(field, Jagged) and pad_value:
        raise InputError(f"field {name!r} is jagged: its padding is empty and has no value")
    if num_real == (field.batch_size if isinstance(field, Jagged) else field.shape[0]):
        return
    if isinstance(field, Jagged):
        padding = field.lengths.view(len(field.keys), -1)[:, num_real:]
        wrong = padding != 0
    else:
        padding = field[num_real:]
        # NaN differs from itself, so it needs a comparison of its own
        wrong = padding.isnan().logical_not() if pad_value != pad_value else padding != pad_value
    if wrong.any():
        rows = wrong.any(0) if isinstance(field, Jagged) else wrong.reshape(wrong.shape[0], -1).any(1)
        row = num_real + int(rows.nonzero()[0])
        raise InputError(
            f"field {name!r} has content in padding row {row}: rows from num_real {num_real} on must be "
            f"{'empty' if isinstance(field, Jagged) else pad_value}"
        )
