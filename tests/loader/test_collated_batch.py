"""What a collate function returns becomes a batch, and what cannot be one is refused, also after right ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from paceline import Batch, Jagged
from paceline.errors import InputError
from paceline.loader.workers.collated_batch import CollatedBatches


def right(num_rows: int = 3) -> dict[str, torch.Tensor]:
    return {"x": torch.rand(num_rows, 2), "label": torch.arange(num_rows)}


def after_some() -> CollatedBatches:
    batches = CollatedBatches()
    for _ in range(2):
        batches.batch_of(right(), 3)
    return batches


def test_later_results_are_batches_like_the_first() -> None:
    batches, result = after_some(), right()
    batch = batches.batch_of(result, 3)
    assert (batch.batch_size, batch.num_real, batch.names()) == (3, 3, ["x", "label"])
    assert batch["x"] is result["x"]
    assert batch.schema() == Batch(result, batch_size=3).schema()
    result["more"] = torch.zeros(3)
    assert "more" not in batch


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": torch.rand(3, 2), "label": torch.arange(2)},
        {"x": torch.rand(3, 2), "label": [1, 2, 3]},
        {"x": torch.rand(3, 2), "label": torch.zeros(3, dtype=torch.int64, device="meta")},
        {"x": torch.rand(3, 2).to_sparse(), "label": torch.arange(3)},
        right(2),
    ],
)
def test_what_cannot_be_a_batch_is_refused_after_right_ones(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        after_some().batch_of(wrong, 3)


@pytest.mark.parametrize(
    "other",
    [
        {"x": torch.rand(3, 5), "label": torch.arange(3)},
        {"x": torch.rand(3, 2).double(), "label": torch.arange(3)},
        {"x": torch.rand(3, 2), "label": torch.arange(3), "more": torch.zeros(3)},
        {"x": torch.rand(3, 2), "words": Jagged(keys=["w"], values=torch.arange(4), lengths=torch.tensor([1, 0, 3]))},
    ],
)
def test_other_fields_have_a_schema_of_their_own(other: dict[str, Any]) -> None:
    batches = after_some()
    assert batches.batch_of(other, 3).schema() == Batch(other, batch_size=3).schema()
    assert batches.batch_of(right(), 3).schema() == Batch(right(), batch_size=3).schema()


def test_a_shorter_batch_and_a_full_one_again() -> None:
    batches = after_some()
    for num_rows in (1, 3, 2, 2):
        result = right(num_rows)
        assert batches.batch_of(result, num_rows).batch_size == num_rows
