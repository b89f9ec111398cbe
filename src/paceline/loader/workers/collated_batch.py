"""What a collate function returns, as a batch: it must have a row for each sample."""

from __future__ import annotations

from typing import Any

from paceline.batch import Batch, as_batch
from paceline.errors import InputError


def collated_batch(result: Any, num_samples: int) -> Batch:
    """Return the result of a collate function as a batch.

    Args:
        result: A batch, or a dict or dataclass of fields.
        num_samples: Samples of which it was made.

    Raises:
        InputError: If it does not have this number of real rows.
    """
    batch = result if isinstance(result, Batch) else as_batch(result)
    if batch.num_real != num_samples:
        raise InputError(f"the collate function made {batch.num_real} real rows of {num_samples} samples")
    return batch
