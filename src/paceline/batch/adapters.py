"""Batches from what people have: dicts and dataclasses of tensors, and lists of samples."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
import torch.utils.data

from paceline.batch.batch import Batch
from paceline.batch.jagged import Jagged
from paceline.batch.plain_tensor import check_is_plain
from paceline.errors import InputError, whole_number


def as_batch(source: Any, *, num_real: int | None = None, pad_values: Mapping[str, float] | None = None) -> Batch:
    """Return a batch of the fields of a dict or a dataclass; its size is that of its fields.

    >>> as_batch({"x": torch.zeros(3, 2), "y": torch.zeros(3)}).batch_size
    3
    """
    named = _fields_by_name(source)
    if named is None:
        raise InputError(f"expected a dict or a dataclass of tensors, got {type(source).__name__}")
    if not named:
        raise InputError("a batch needs at least one field")
    first = next(iter(named.values()))
    if isinstance(first, torch.Tensor):
        size = first.size(0)
    elif isinstance(first, Jagged):
        size = first.batch_size
    else:
        size = first.stride()  # a KeyedJaggedTensor's name for its number of rows
    return Batch(named, batch_size=size, num_real=num_real, pad_values=pad_values)


_NUMBERS = {float, int, bool}
_FEWEST_FIELDS = 2  # of numbers, from which on a common block pays
_SHARED_BYTES = 16384  # anything smaller is copied just as fast


class UnknownDtypeError(InputError):
    """All lists of a field are empty, so nothing says which dtype it has."""


class Collate:
    """A `collate_fn` for DataLoader: stacks samples into a batch that always has `batch_size` rows.

    Samples are dicts, dataclasses or tuples of fields, or one field alone. A jagged field holds, in each sample, a list
    of values, or a dict of such lists by key; its length may differ between samples and may be 0. All other fields are
    stacked.

    >>> collate = Collate(batch_size=3, jagged=["history"])
    >>> batch = collate([{"label": 1.0, "history": [5, 6]}, {"label": 0.0, "history": []}])
    >>> batch
    Batch(3 rows, 2 real)
      label    dense float32
      history  jagged history; 3 rows, 2 values int64

    Args:
        batch_size: Rows of every batch; fewer samples are padded, more are an error.
        jagged: Names of the jagged fields.
        fields: Names for the fields of samples that are tuples; otherwise they are "0", "1" and so on.
        pad_values: What the padding rows of a dense field hold, if not 0.
        example: A sample, which shows the shape of a batch without any sample: the tail `pad` can give some ranks such
            a batch in the last step. Without an example, the first batch that has samples is remembered.
    """

    def __init__(
        self,
        batch_size: int,
        *,
        jagged: Collection[str] = (),
        fields: Collection[str] = (),
        pad_values: Mapping[str, float] | None = None,
        example: Any = None,
    ) -> None:
        self.batch_size = whole_number("batch_size", batch_size, least=1)
        self._jagged, self._fields = frozenset(jagged), tuple(fields)
        self._pad_values = dict(pad_values or {})
        self._empty: Batch | None = None
        if example is not None:
            self([example])

    def __call__(self, samples: Sequence[Any]) -> Batch:
        """Return the batch of the samples."""
        if len(samples) > self.batch_size:
            raise InputError(f"got {len(samples)} samples for a batch of {self.batch_size} rows: raise batch_size")
        if not samples:
            if self._empty is None:
                raise InputError("a batch without samples has no shape: give Collate an example of a sample")
            return self._empty.emptied(self.batch_size)
        return self.stack(samples).pad_to(self.batch_size)

    def stack(self, samples: Sequence[Any]) -> Batch:
        """Return the batch of at least one sample, without padding."""
        values_of = self._values_by_field(samples)
        if self._empty is None and (unknown := sorted(self._jagged - values_of.keys())):
            raise InputError(f"jagged names fields that samples do not have: {unknown}; they have {sorted(values_of)}")
        columns: dict[str, torch.Tensor | Jagged] = _number_columns(values_of)
        for name, values in values_of.items():
            if name not in columns:
                columns[name] = self._column(name, values)
        columns = {name: columns[name] for name in values_of}  # in the order of the sample's fields
        pad_values = {name: value for name, value in self._pad_values.items() if name in columns}
        if self._empty is not None:  # columns are right by construction, and settings have been checked
            return Batch.unchecked(columns, len(samples), pad_values)
        batch = Batch(columns, batch_size=len(samples), pad_values=pad_values)
        self._empty = batch.emptied(1)
        return batch

    def _values_by_field(self, samples: Sequence[Any]) -> dict[str, list[Any]]:
        """Return the values of each field, sample after sample."""
        first = samples[0]
        if isinstance(first, tuple | list) and not hasattr(first, "_fields"):
            names = self._fields or tuple(map(str, range(len(first))))
            if any(len(sample) != len(names) for sample in samples):
                raise InputError(f"samples must have the {len(names)} fields {', '.join(names)}, got {len(first)}")
            return {name: [sample[index] for sample in samples] for index, name in enumerate(names)}
        rows: Sequence[Any] = samples if isinstance(first, dict) else [_fields_by_name(sample) for sample in samples]
        if rows[0] is None:
            names = self._fields or ("0",)
            if len(names) > 1:
                raise InputError(f"samples must be tuples of {len(names)} fields, got {type(first).__name__}")
            return {names[0]: list(samples)}
        try:
            if set(map(len, rows)) == {len(rows[0])}:
                return {name: [row[name] for row in rows] for name in rows[0]}
        except (KeyError, TypeError):  # a sample without this field, or without any
            pass
        raise InputError(f"samples must all have the fields {', '.join(map(str, rows[0]))}")

    def _column(self, name: str, values: list[Any]) -> torch.Tensor | Jagged:
        if name in self._jagged:
            known = self._empty[name] if self._empty is not None and name in self._empty else None
            return _jagged_column(name, values, known.values.dtype if isinstance(known, Jagged) else None)
        return _dense_column(name, values)


def _number_columns(values_of: dict[str, list[Any]]) -> dict[str, torch.Tensor | Jagged]:
    """Return the fields that hold Python numbers, in one block of memory: a dozen fields cost little more than one."""
    columns: dict[str, torch.Tensor | Jagged] = {}
    for kind, dtype in ((float, np.float32), (int, np.int64)):
        names = [name for name, values in values_of.items() if type(values[0]) is kind]
        if len(names) < _FEWEST_FIELDS or torch.get_default_dtype() is not torch.float32:
            continue
        try:
            block = np.array([values_of[name] for name in names])
        except ValueError:  # lists among them
            continue
        if block.ndim == 2 and block.dtype.kind == ("f" if kind is float else "i"):
            rows = torch.from_numpy(block.astype(dtype, copy=False))
            columns |= dict(zip(names, rows.unbind(), strict=True))
    return columns


def _dense_column(name: str, values: list[Any]) -> torch.Tensor:
    kinds = set(map(type, values))
    if kinds <= _NUMBERS:
        return _numbers(values)
    if kinds == {np.ndarray} and _have_one_form(values):
        return _stacked_arrays(values)
    tensors = values if kinds == {torch.Tensor} else [_tensor(value, name) for value in values]
    check_is_plain(name, tensors[0])
    try:
        return torch.stack(tensors, out=_shared(tensors[0], (len(tensors), *tensors[0].shape)))
    except RuntimeError:
        shapes = sorted({tuple(tensor.shape) for tensor in tensors})
        if len(shapes) > 1:
            raise InputError(
                f"field {name!r} has samples of shapes {shapes}: declare it as jagged, or pad it"
            ) from None
        raise


def _have_one_form(arrays: list[Any]) -> bool:
    shape, dtype = arrays[0].shape, arrays[0].dtype
    # arrays of one source share the dtype itself, and to compare two takes longer than all else here
    return all(array.shape == shape and (array.dtype is dtype or array.dtype == dtype) for array in arrays)


def _stacked_arrays(arrays: list[Any]) -> torch.Tensor:
    """Stack numpy arrays of one form. What numpy's stack does beside the copy takes as long as that of 100 kB."""
    first = arrays[0]
    shape = (len(arrays), *first.shape)
    # an empty array stands for the dtype: torch would warn about an array that is read-only, such as a mapped file. Of
    # numbers in the byte order of another machine numpy makes those of this one
    out = _shared(torch.from_numpy(np.empty(0, first.dtype.newbyteorder("="))), shape) if _is_worker() else None
    if out is None and not all(array.flags.c_contiguous for array in arrays):
        return torch.from_numpy(np.stack(arrays))  # it keeps the order of their axes in memory
    rows = arrays if first.ndim else [array.reshape(1) for array in arrays]
    if out is None:
        return torch.from_numpy(np.concatenate(rows).reshape(shape))
    np.concatenate(rows, out=out.numpy().reshape(len(rows) * rows[0].shape[0], *rows[0].shape[1:]))
    return out


def _is_worker() -> bool:
    return torch.utils.data.get_worker_info() is not None


def _shared(like: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor | None:
    """Return memory that a worker shares with its parent, so that the batch is not copied again; None elsewhere."""
    if not _is_worker() or like.device.type != "cpu" or like.is_sparse:
        return None
    num_bytes = math.prod(shape) * like.element_size()
    if num_bytes < _SHARED_BYTES:
        return None
    storage: torch.UntypedStorage = torch.UntypedStorage._new_shared(num_bytes)  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=like.dtype).set_(storage).view(shape)


def _numbers(values: list[Any]) -> torch.Tensor:
    """Return Python numbers as `torch.tensor` does; by way of numpy this takes a third of the time."""
    array = np.array(values)
    if array.dtype.kind in "bi":
        return torch.from_numpy(array)
    if array.dtype.kind == "f" and torch.get_default_dtype() is torch.float32:
        return torch.from_numpy(array.astype(np.float32))
    return torch.tensor(values)


def _jagged_column(name: str, values: list[Any], dtype: torch.dtype | None) -> Jagged:
    """Join lists. An empty Python list has no dtype of its own: it takes that of the others, or else `dtype`."""
    by_key = [value if isinstance(value, Mapping) else {name: value} for value in values]
    keys = list(by_key[0])
    if any(list(row) != keys for row in by_key):
        raise InputError(f"field {name!r} must have the same keys in every sample, the first has {keys}")
    lists = [row[key] for key in keys for row in by_key]  # key after key, as `Jagged` has them
    joined = _join_lists(name, lists)
    if joined is None:
        if dtype is None:
            raise UnknownDtypeError(
                f"field {name!r} has only empty lists, so its dtype is not known: give Collate an example with values"
            )
        joined = torch.empty(0, dtype=dtype)
    return Jagged(keys=keys, values=joined, lengths=torch.tensor([len(part) for part in lists]))


def _join_lists(name: str, lists: list[Any]) -> torch.Tensor | None:
    """Return all values, one list after the other; None if nothing shows their dtype."""
    typed = [part for part in lists if len(part) or hasattr(part, "dtype")]
    if not typed:
        return None
    if all(isinstance(part, list) and isinstance(part[0], float | int) for part in typed):
        if len({type(part[0]) for part in typed}) == 1:
            return torch.tensor([number for part in typed for number in part])
    elif all(isinstance(part, np.ndarray) for part in typed) and len({part.dtype for part in typed}) == 1:
        return torch.from_numpy(np.concatenate(typed))
    tensors = [_tensor(part, name) for part in typed]
    check_is_plain(name, tensors[0])
    if len(kinds := {part.dtype for part in tensors}) > 1:
        raise InputError(f"field {name!r} has lists of several dtypes: {sorted(map(str, kinds))}")
    return torch.cat(tensors)


def _tensor(value: Any, name: str) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"field {name!r} holds a {type(value).__name__} that cannot become a tensor: {error}"
        ) from error


def _fields_by_name(source: Any) -> dict[str, Any] | None:
    if isinstance(source, Mapping):
        return dict(source)
    if is_dataclass(source) and not isinstance(source, type):
        return {field.name: getattr(source, field.name) for field in fields(source)}
    if isinstance(source, tuple) and hasattr(source, "_asdict"):
        return dict(source._asdict())
    return None
