"""Parcels: rows of a batch as bytes, and back, without any change of a dtype. All fields of a row travel together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paceline.batch.batch import Batch
from paceline.batch.device_rows import DeviceRows
from paceline.batch.host_rows import HostRows
from paceline.batch.jagged import Jagged

_LENGTH_BYTES = 8


def rows_of(batch: Batch) -> HostRows | DeviceRows:
    """Return the rows of a batch, to be packed into parcels; where they lie in memory makes the difference."""
    return HostRows(batch) if batch.device.type == "cpu" else DeviceRows(batch)


def bytes_per_row(batch: Batch) -> NDArray[np.int64]:
    """Return the bytes that each row of a batch takes in a parcel. Without jagged fields all take the same."""
    numbers = np.zeros(batch.batch_size, np.int64)
    for field in batch.schema():
        content = batch[field.name]
        if not isinstance(content, Jagged):
            numbers += field.values.row_bytes
            continue
        lengths = content.lengths.view(len(field.keys), -1).sum(0).cpu().numpy()
        value_bytes = field.values.row_bytes + (0 if field.weights is None else field.weights.row_bytes)
        numbers += _LENGTH_BYTES * len(field.keys) + lengths * value_bytes
    return numbers
