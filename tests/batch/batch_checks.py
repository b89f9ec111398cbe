"""What tests of batches share: a check of what a batch promises, and a sample as a dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline import Batch, Jagged


def check_invariants(batch: Batch) -> None:
    """What a batch promises: building it anew from its parts must find nothing wrong."""
    again = Batch(batch.to_dict(), batch_size=batch.batch_size, num_real=batch.num_real, pad_values=batch.pad_values)
    assert again.schema() == batch.schema()
    for name in batch.names():
        field = batch[name]
        if isinstance(field, Jagged):
            assert int(field.lengths.sum()) == field.values.shape[0]


@dataclass
class Sample:
    x: Any
    history: Any
