"""What batches must have in common so that ranks can hand them to each other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch

from paceline.batch.jagged import Jagged


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSchema:
    """A tensor without its rows: dtype and the dimensions after the first."""

    dtype: torch.dtype
    trailing: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorSchema:
        """Return the schema of a tensor."""
        return cls(dtype=tensor.dtype, trailing=tuple(tensor.shape[1:]))

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        size = self.dtype.itemsize
        for dimension in self.trailing:
            size *= dimension
        return size

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.trailing)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    """A field without its rows. A dense field has no keys and no lengths."""

    name: str
    values: TensorSchema
    keys: tuple[str, ...] = ()
    lengths: TensorSchema | None = None
    weights: TensorSchema | None = None

    def __str__(self) -> str:
        if self.lengths is None:
            return f"{self.name}: dense {self.values}"
        weights = "" if self.weights is None else f", weights {self.weights}"
        return f"{self.name}: jagged {self.values} under {', '.join(self.keys)}, lengths {self.lengths}{weights}"


class Schema(tuple[FieldSchema, ...]):
    """The fields of a batch, by name. Its hash is computed once, because every step looks something up by it."""

    def __hash__(self) -> int:
        if "_hash" not in self.__dict__:
            self.__dict__["_hash"] = super().__hash__()
        known: int = self.__dict__["_hash"]
        return known


_known: dict[Schema, Schema] = {}  # one object for equal schemas: comparing it with itself takes no time
_MOST_KNOWN = 1024


def schema_of(fields: Mapping[str, torch.Tensor | Jagged]) -> Schema:
    """Return the schema of fields, by name."""
    schema = Schema(_field_schema(name, fields[name]) for name in sorted(fields))
    if len(_known) > _MOST_KNOWN:
        _known.clear()
    return _known.setdefault(schema, schema)


def _field_schema(name: str, field: torch.Tensor | Jagged) -> FieldSchema:
    if isinstance(field, torch.Tensor):
        return FieldSchema(name=name, values=TensorSchema.of(field))
    return FieldSchema(
        name=name,
        values=TensorSchema.of(field.values),
        keys=tuple(field.keys),
        lengths=TensorSchema.of(field.lengths),
        weights=None if field.weights is None else TensorSchema.of(field.weights),
    )


@lru_cache(maxsize=256)
def fingerprint(schema: Schema) -> int:
    """Return 62 bits that are equal for equal schemas, and almost certainly differ for others."""
    digest = hashlib.blake2b(repr(schema).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 2
