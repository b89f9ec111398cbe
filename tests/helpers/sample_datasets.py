"""A dataset for loaders, of samples of several kinds, and what a batch of it must hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from paceline import Batch


class Histories:
    """Samples of a label, a vector and a list of any length; some cannot be loaded."""

    def __init__(self, num: int, *, bad: tuple[int, ...] = (), dtype_changes_at: int | None = None) -> None:
        self._num, self._bad, self._changes_at = num, set(bad), dtype_changes_at

    def __len__(self) -> int:
        return self._num

    def __getitem__(self, sample: int) -> dict[str, Any]:
        if sample in self._bad:
            raise OSError(f"file {sample}.npz is corrupt")
        kind = np.float64 if sample == self._changes_at else np.float32
        return {"id": sample, "vector": np.full(3, sample, kind), "words": list(range(sample % 5))}


class AtOnce(Histories):
    """The same, asked for all of a batch at once."""

    num_calls = 0

    def __getitems__(self, ids: list[int]) -> list[dict[str, Any]]:
        self.num_calls += 1
        return [self[sample] for sample in ids]


def words_of(batch: Batch) -> Any:
    return batch["words"].lengths  # type: ignore[union-attr]


def seen(batch: Batch) -> tuple[int, int, list[int], list[Any]]:
    """What a batch has, after a look at all of it."""
    Batch(batch.to_dict(), batch_size=batch.batch_size, num_real=batch.num_real)  # checks every invariant
    ids = [int(number) for number in batch.real("id")]  # type: ignore[union-attr]
    for row, sample in zip(batch, ids, strict=True):
        assert row["vector"].tolist() == [sample] * 3
        assert row["words"]["words"].tolist() == list(range(sample % 5))
    return batch.batch_size, batch.num_real, ids, [str(field) for field in batch.schema()]
