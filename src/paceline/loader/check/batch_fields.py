"""What a batch is made of: its fields with shape and dtype, read without importing any framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from paceline.errors import InputError
from paceline.plan.order import Ids

_SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic)
_DEEPEST = 30
_ID_NAMES = ("id", "ids", "sample_id", "sample_ids", "index", "indices", "idx")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a batch: where it is, and what must be the same on every rank.

    Attributes:
        path: Where in the batch, such as `tokens` or `inputs.mask[0]`; empty for the batch itself.
        shape: Its shape, or None if it has none that must agree (the values of a jagged field).
        dtype: Its element type, or None if it has no element to tell by.
        is_known: Whether it could be looked into; otherwise only its type is known.
    """

    path: str
    shape: tuple[int, ...] | None
    dtype: str | None
    is_known: bool = True


def fields_of(batch: Any, path: str = "", depth: int = 0) -> Iterator[Field]:
    """Yield the fields of a batch: tensors, arrays, numbers and texts in dicts, sequences and objects, by name.

    >>> for field in fields_of({"x": np.zeros((3, 2)), "ids": [4, 5, 6]}):
    ...     print(field.path, field.shape, field.dtype)
    ids (3,) int
    x (3, 2) float64
    """
    if depth > _DEEPEST:
        raise InputError(f"a batch is nested more than {_DEEPEST} deep at {path!r}: does it hold itself?")
    if getattr(batch, "is_nested", False):
        yield Field(path, None, str(batch.dtype))
    elif hasattr(batch, "shape") and hasattr(batch, "dtype"):
        yield Field(path, tuple(int(size) for size in batch.shape), str(batch.dtype))
    elif _is_jagged(batch):
        yield Field(f"{path}.keys".lstrip("."), None, ", ".join(map(str, batch.keys())))
        yield from fields_of(batch.lengths(), f"{path}.lengths".lstrip("."), depth + 1)
        yield Field(f"{path}.values".lstrip("."), None, str(batch.values().dtype))
        weights = batch.weights_or_none() if hasattr(batch, "weights_or_none") else None
        yield Field(f"{path}.weights".lstrip("."), None, "none" if weights is None else str(weights.dtype))
    elif (parts := named_parts(batch)) is not None:
        for name, part in sorted(parts.items()):
            yield from fields_of(part, f"{path}.{name}".lstrip("."), depth + 1)
    elif isinstance(batch, list | tuple):
        yield from _fields_of_sequence(batch, path, depth)
    else:
        yield Field(path, (), type(batch).__name__, isinstance(batch, _SCALARS))


def ids_of(batch: Any, path: str | None) -> Ids | None:
    """Return the sample ids that a batch carries, or None if it carries none.

    With a path, they stand there. Without one, they are the batch itself where it is one list of whole numbers,
    or a field with a usual name. Negative ids are padding and left out.
    """
    if path is not None:
        return _as_ids(_part_at(batch, path), path)
    ids = _whole_numbers(batch)
    if ids is None:
        named = named_parts(batch) or {}
        names = [name for name in _ID_NAMES if name in named]
        ids = _whole_numbers(named[names[0]]) if names else None
    return None if ids is None else ids[ids >= 0]


def named_parts(batch: Any) -> dict[str, Any] | None:
    """Return the parts of a dict, a named tuple or an object by their names, or None if it has none."""
    if isinstance(batch, Mapping):
        return {str(name): part for name, part in batch.items()}
    if is_dataclass(batch) and not isinstance(batch, type):
        return {field.name: getattr(batch, field.name) for field in fields(batch)}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return dict(zip(batch._fields, batch, strict=True))
    if isinstance(batch, (*_SCALARS, list, tuple)) or not hasattr(batch, "__dict__"):
        return None
    return {name: part for name, part in vars(batch).items() if not name.startswith("_")} or None


def _is_jagged(batch: Any) -> bool:
    """Whether it is like a KeyedJaggedTensor: keys, values and lengths are methods."""
    if isinstance(batch, Mapping):
        return False
    return all(callable(getattr(batch, name, None)) for name in ("keys", "values", "lengths"))


def _fields_of_sequence(batch: list[Any] | tuple[Any, ...], path: str, depth: int) -> Iterator[Field]:
    if all(isinstance(item, bool | int | float | str | bytes) for item in batch):
        kinds = {type(item).__name__ for item in batch}
        yield Field(path, (len(batch),), " or ".join(sorted(kinds)) or None)
        return
    for index, item in enumerate(batch):
        yield from fields_of(item, f"{path}[{index}]", depth + 1)


def _part_at(batch: Any, path: str) -> Any:
    part = batch
    for name in path.split("."):
        named = named_parts(part) or {}
        if name in named:
            part = named[name]
        elif isinstance(part, list | tuple) and name.isdecimal() and int(name) < len(part):
            part = part[int(name)]
        else:
            have = ", ".join(named) or f"a {type(part).__name__}"
            raise InputError(f"the batch has no ids at {path!r}: at {name!r} it has {have}")
    return part


def _as_ids(part: Any, path: str) -> Ids:
    ids = _whole_numbers(part)
    if ids is None:
        raise InputError(f"the ids at {path!r} are not one list of whole numbers: {part!r:.80}")
    return ids[ids >= 0]


def _whole_numbers(part: Any) -> Ids | None:
    if isinstance(part, list | tuple) and not hasattr(part, "_fields"):
        is_whole = all(isinstance(item, int) and not isinstance(item, bool) for item in part)
        return np.array(part, dtype=np.int64) if is_whole else None
    if getattr(part, "is_nested", False) or not (hasattr(part, "shape") and hasattr(part, "dtype")):
        return None
    kind = str(part.dtype).removeprefix("torch.")
    if len(part.shape) != 1 or not kind.startswith(("int", "uint")) or kind == "uint64":
        return None
    if hasattr(part, "device") and not isinstance(part, np.ndarray):
        if part.device.type == "meta":  # it has a shape, but no numbers
            return None
        part = part.cpu()
    return np.asarray(part).astype(np.int64)
