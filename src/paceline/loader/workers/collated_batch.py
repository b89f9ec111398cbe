"""What a collate function returns, as a batch: it must have a row for each sample."""

from __future__ import annotations

from typing import Any

import torch

from paceline.batch import Batch, as_batch
from paceline.errors import InputError

_Form = tuple[torch.dtype, torch.Size]


class CollatedBatches:
    """Makes batches of what one collate function returns.

    The first result is checked thoroughly. Later ones of the same dense fields need no more than a glance: to check
    every batch as if it were the first takes a tenth of the time in which small samples are collated.
    """

    def __init__(self) -> None:
        self._first: Batch | None = None
        self._num_rows = 0
        # what each dense field of the last such batch was; None where the first batch had others
        self._forms: dict[str, _Form] | None = None

    def batch_of(self, result: Any, num_samples: int) -> Batch:
        """Return the result of a collate function as a batch.

        Args:
            result: A batch, or a dict or dataclass of fields.
            num_samples: Samples of which it was made.

        Raises:
            InputError: If it does not have this number of real rows.
        """
        if self._first is not None and type(result) is dict and self._is_alike(result, num_samples):
            return self._first.like(result.copy(), num_samples)
        batch = result if isinstance(result, Batch) else as_batch(result)
        if batch.num_real != num_samples:
            raise InputError(f"the collate function made {batch.num_real} real rows of {num_samples} samples")
        if not isinstance(result, Batch):
            self._learn(batch)
        return batch

    def _learn(self, batch: Batch) -> None:
        """Note what the fields are, if they are those of the first batch in another number of rows."""
        if self._first is None:
            self._first = batch.emptied(1)
            self._first.schema()  # computed once: batches that are alike share it
        if batch.has_fields_of(self._first):
            self._num_rows, self._forms = batch.batch_size, _forms(batch)

    def _is_alike(self, fields: dict[str, Any], num_rows: int) -> bool:
        """Say whether these are the fields of the last batch, with as many rows."""
        if self._forms is None or num_rows != self._num_rows or fields.keys() != self._forms.keys():
            return False
        for name, (dtype, shape) in self._forms.items():
            field = fields[name]
            if type(field) is not torch.Tensor or field.dtype is not dtype or field.is_nested:
                return False
            if field.shape != shape or field.layout is not torch.strided or not field.is_cpu:
                return False
        return True


def _forms(batch: Batch) -> dict[str, _Form] | None:
    fields = batch.to_dict()
    if any(type(field) is not torch.Tensor for field in fields.values()):
        return None
    return {name: (field.dtype, field.shape) for name, field in fields.items()}  # type: ignore[union-attr]
