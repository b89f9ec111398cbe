"""Keyed lists of different lengths, one list for each key and row: the layout of a KeyedJaggedTensor.

Values lie key after key, and within a key row after row. A `Jagged` is a value: no operation changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from paceline.errors import InputError

_WHOLE = (torch.int32, torch.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Jagged:
    """Lists under keys: row r has, for each key, `lengths[key, r]` values.

    >>> jagged = Jagged(keys=["item", "action"], values=torch.arange(6), lengths=torch.tensor([2, 0, 1, 1, 1, 1]))
    >>> jagged.batch_size
    3
    >>> jagged["item"]
    [tensor([0, 1]), tensor([], dtype=torch.int64), tensor([2])]

    Attributes:
        keys: Names of the lists, each once.
        values: All values, (num_values, ...): first those of the first key.
        lengths: One length for each key and row, (num_keys * batch_size).
        weights: One weight, or row of weights, for each value; or None.
    """

    keys: Sequence[str]
    values: torch.Tensor
    lengths: torch.Tensor
    weights: torch.Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        object.__setattr__(self, "lengths", self.lengths.reshape(-1))
        if not self.keys or len(set(self.keys)) < len(self.keys):
            raise InputError(f"there must be at least one key, and each only once, got {list(self.keys)}")
        if self.lengths.dtype not in _WHOLE:
            raise InputError(f"lengths must be int32 or int64, got {self.lengths.dtype}")
        if self.lengths.numel() % len(self.keys):
            raise InputError(
                f"lengths must be one for each key and row: {self.lengths.numel()} do not divide by the "
                f"{len(self.keys)} keys {list(self.keys)}"
            )
        if self.values.dim() == 0:
            raise InputError("values must have a dimension for the values, got a single number")
        if self.weights is not None and self.weights.shape[:1] != self.values.shape[:1]:
            raise InputError(
                f"got {_rows(self.values)} values but {_rows(self.weights)} weights: there must be one weight per value"
            )
        if self.lengths.device.type == "cpu":  # on other devices, looking at the numbers would wait for them
            self._check_lengths()

    def _check_lengths(self) -> None:
        if self.lengths.numel() and int(self.lengths.min()) < 0:
            key, row = divmod(int((self.lengths < 0).nonzero()[0]), self.batch_size)
            raise InputError(
                f"lengths must not be negative: key {self.keys[key]!r}, row {row} has {self._grid[key, row]}"
            )
        total = int(self.lengths.sum())
        if total != _rows(self.values):
            raise InputError(f"lengths add up to {total}, but there are {_rows(self.values)} values")

    @property
    def batch_size(self) -> int:
        """Rows of each key."""
        return self.lengths.numel() // len(self.keys)

    @property
    def device(self) -> torch.device:
        """Where the values are."""
        return self.values.device

    @property
    def _grid(self) -> torch.Tensor:
        """Lengths by key and row."""
        return self.lengths.view(len(self.keys), -1)

    def offsets(self) -> torch.Tensor:
        """Return where each list begins, and where the last ends: (num_keys * batch_size + 1)."""
        zero = self.lengths.new_zeros(1)
        return torch.cat([zero, self.lengths.cumsum(0, dtype=self.lengths.dtype)])

    def values_per_key(self) -> list[int]:
        """Return how many values each key has. On a GPU this waits for the numbers."""
        counts: list[int] = self._grid.sum(1).tolist()
        return counts

    def __getitem__(self, key: str) -> list[torch.Tensor]:
        """Return the lists of one key, one for each row; they share memory with the values."""
        if key not in self.keys:
            raise KeyError(f"there is no key {key!r}, only {', '.join(self.keys)}")
        index = list(self.keys).index(key)
        values = torch.split(self.values, self.values_per_key())[index]
        return list(torch.split(values, self._grid[index].tolist()))

    def select(self, rows: torch.Tensor) -> Jagged:
        """Return the lists of these rows, in this order."""
        lengths = self._grid[:, rows]
        starts = self.offsets()[:-1].view(len(self.keys), -1)[:, rows].reshape(-1)
        flat = lengths.reshape(-1)
        ends = flat.cumsum(0)
        # the index of each value: where its list starts, plus how far it is into the list
        shift = torch.repeat_interleave(starts - (ends - flat), flat)
        indices = shift + torch.arange(shift.numel(), device=shift.device)
        return self._with(self.values[indices], flat, None if self.weights is None else self.weights[indices])

    def narrow(self, num_rows: int) -> Jagged:
        """Return the first rows; the others must be padding, so that all values belong to these."""
        return self._with(self.values, self._grid[:, :num_rows].reshape(-1), self.weights)

    def pad(self, num_rows: int) -> Jagged:
        """Return the same lists, followed by empty ones up to `num_rows` rows."""
        added = self.lengths.new_zeros((len(self.keys), num_rows - self.batch_size))
        return self._with(self.values, torch.cat([self._grid, added], 1).reshape(-1), self.weights)

    def emptied(self, num_rows: int, device: torch.device | str | None = None) -> Jagged:
        """Return `num_rows` rows of empty lists under the same keys; on the same device, if none is given."""
        weights = None if self.weights is None else self.weights.new_empty((0, *self.weights.shape[1:]), device=device)
        values = self.values.new_empty((0, *self.values.shape[1:]), device=device)
        return self._with(values, self.lengths.new_zeros(len(self.keys) * num_rows, device=device), weights)

    def map(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Jagged:
        """Return the same with the function applied to each tensor: to move or pin it."""
        weights = None if self.weights is None else function(self.weights)
        return self._with(function(self.values), function(self.lengths), weights)

    def _with(self, values: torch.Tensor, lengths: torch.Tensor, weights: torch.Tensor | None) -> Jagged:
        return self.unchecked(self.keys, values, lengths, weights)

    @staticmethod
    def unchecked(
        keys: Sequence[str], values: torch.Tensor, lengths: torch.Tensor, weights: torch.Tensor | None
    ) -> Jagged:
        """Make a Jagged that is right by construction; nothing is checked again."""
        jagged = object.__new__(Jagged)
        for name, value in (("keys", keys), ("values", values), ("lengths", lengths), ("weights", weights)):
            object.__setattr__(jagged, name, value)
        return jagged

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Jagged:
        """Return the rows of all parts, one part after the other; keys and dtypes must be the same."""
        first = parts[0]
        counts = [part.values_per_key() for part in parts]

        def by_key(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
            pieces = [torch.split(tensor, count) for tensor, count in zip(tensors, counts, strict=True)]
            return torch.cat([piece[key] for key in range(len(first.keys)) for piece in pieces])

        weights = [part.weights for part in parts if part.weights is not None]
        return cls.unchecked(
            first.keys,
            by_key([part.values for part in parts]),
            torch.cat([part._grid for part in parts], 1).reshape(-1),
            by_key(weights) if weights else None,
        )

    @classmethod
    def from_keyed(cls, keyed: Any) -> Jagged:
        """Return the content of a KeyedJaggedTensor, or of anything with its methods; memory is shared."""
        strides = {int(keyed.stride()), keyed.lengths().numel() // max(1, len(keyed.keys()))}
        if len(strides) > 1:
            raise InputError(
                f"a KeyedJaggedTensor whose keys have different numbers of rows cannot be a field: {strides}"
            )
        return cls(
            keys=list(keyed.keys()),
            values=keyed.values(),
            lengths=keyed.lengths(),
            weights=keyed.weights_or_none(),
        )

    def to_keyed(self, keyed_type: Callable[..., Any]) -> Any:
        """Return it as a KeyedJaggedTensor, whose class is passed."""
        return keyed_type(keys=list(self.keys), values=self.values, lengths=self.lengths, weights=self.weights)

    @classmethod
    def from_nested(cls, nested: Any, key: str = "values") -> Jagged:
        """Return the content of a nested tensor of jagged layout, under one key."""
        if nested.layout is not torch.jagged:
            raise InputError(f"a nested tensor must have layout torch.jagged, got {nested.layout}")
        if nested.lengths() is not None:
            raise InputError("a nested tensor with holes cannot be a field: call .contiguous() first")
        return cls(keys=[key], values=nested.values(), lengths=nested.offsets().diff())

    def to_nested(self, key: str | None = None) -> torch.Tensor:
        """Return the lists of one key as a nested tensor of jagged layout; of the only key, if none is named."""
        if key is None and len(self.keys) > 1:
            raise InputError(f"a nested tensor holds one key: name one of {', '.join(self.keys)}")
        index = 0 if key is None else list(self.keys).index(key)
        values = torch.split(self.values, self.values_per_key())[index]
        offsets = torch.cat([self.lengths.new_zeros(1), self._grid[index].cumsum(0)])
        nested: torch.Tensor = torch.nested.nested_tensor_from_jagged(values, offsets.to(torch.int64))
        return nested

    def __repr__(self) -> str:
        weighted = "" if self.weights is None else f", weights {_dtype(self.weights)}"
        trailing = f" {list(self.values.shape[1:])}" if self.values.dim() > 1 else ""
        return (
            f"Jagged({', '.join(self.keys)}; {self.batch_size} rows, {_rows(self.values)} values "
            f"{_dtype(self.values)}{trailing}{weighted})"
        )


def _rows(tensor: torch.Tensor) -> int:
    return int(tensor.shape[0]) if tensor.dim() else 1


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
