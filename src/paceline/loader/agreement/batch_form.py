"""The fields of a batch without its rows, in a form that travels: ranks compare it, and make padding from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from paceline.batch import Batch, Jagged
from paceline.batch.schema import FieldSchema, Schema, TensorSchema
from paceline.loader.agreement.must_agree import MustAgree, check_agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchForm:
    """What batches must share to be of one kind, and the order of their fields.

    Attributes:
        schema: The fields, by name.
        names: Their names, in the order of the batch.
        pad_values: What padding rows of a field hold, where it is not 0.
    """

    schema: Schema
    names: tuple[str, ...]
    pad_values: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, batch: Batch) -> BatchForm:
        """Return the form of a batch."""
        pad_values = tuple(sorted(batch.pad_values.items()))
        return cls(schema=batch.schema(), names=tuple(batch.names()), pad_values=pad_values)

    def must_agree(self) -> MustAgree:
        """Return what all ranks must have alike: the order of the fields is left out."""
        return MustAgree(chosen=described_fields(self.schema, dict(self.pad_values)))

    def padding_rows(self, num_rows: int, device: torch.device | str = "cpu") -> Batch:
        """Return a batch of this form without a real row."""
        schemas = {field.name: field for field in self.schema}
        fields = {name: _no_rows(schemas[name]) for name in self.names}
        return Batch.unchecked(fields, 0, dict(self.pad_values)).emptied(num_rows, device)

    def to_json(self) -> dict[str, Any]:
        """Return it in a form that travels."""
        return {
            "fields": [_field_to_json(field) for field in self.schema],
            "names": self.names,
            "pad_values": self.pad_values,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any] | None) -> BatchForm | None:
        """Return what `to_json` was made of; None where there was no form."""
        if content is None:
            return None
        return cls(
            schema=Schema(_field_from_json(field) for field in content["fields"]),
            names=tuple(content["names"]),
            pad_values=tuple((name, value) for name, value in content["pad_values"]),
        )


def described_fields(schema: Schema, pad_values: Mapping[str, float]) -> dict[str, str]:
    """Return the fields and the padding values for a reader, by name."""
    fields = {f"field {field.name!r}": str(field).removeprefix(f"{field.name}: ") for field in schema}
    return {**fields, "padding values": str({name: repr(float(value)) for name, value in sorted(pad_values.items())})}


def agreed_form(forms: Sequence[BatchForm | None]) -> BatchForm | None:
    """Return the form on which all ranks agree, or None if no rank knows one.

    A rank that has no row knows no form: it takes that of the others.

    Raises:
        DisagreementError: If two ranks have different forms.
    """
    known = next((form for form in forms if form is not None), None)
    if known is not None:
        check_agreement([(form or known).must_agree() for form in forms])
    return known


def _no_rows(field: FieldSchema) -> torch.Tensor | Jagged:
    values = _no_values(field.values)
    if field.lengths is None:
        return values
    weights = None if field.weights is None else _no_values(field.weights)
    return Jagged(keys=field.keys, values=values, lengths=_no_values(field.lengths), weights=weights)


def _no_values(schema: TensorSchema) -> torch.Tensor:
    return torch.empty((0, *schema.trailing), dtype=schema.dtype)


def _field_to_json(field: FieldSchema) -> list[Any]:
    tensors = [field.values, field.lengths, field.weights]
    return [field.name, field.keys, *(None if each is None else _tensor_to_json(each) for each in tensors)]


def _field_from_json(content: list[Any]) -> FieldSchema:
    name, keys, values, lengths, weights = content
    return FieldSchema(
        name=name,
        values=_tensor_from_json(values),
        keys=tuple(keys),
        lengths=None if lengths is None else _tensor_from_json(lengths),
        weights=None if weights is None else _tensor_from_json(weights),
    )


def _tensor_to_json(schema: TensorSchema) -> list[Any]:
    return [str(schema.dtype).removeprefix("torch."), schema.trailing]


def _tensor_from_json(content: list[Any]) -> TensorSchema:
    dtype, trailing = content
    return TensorSchema(dtype=getattr(torch, dtype), trailing=tuple(trailing))
