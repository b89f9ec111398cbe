"""Samples are collated into batches of one size, padded where there are too few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.batch.batch_checks import Sample, check_invariants
from torch.utils.data import DataLoader

from paceline import Collate, Jagged, PlanSampler
from paceline.batch import adapters
from paceline.errors import InputError


def sample(index: int) -> dict[str, Any]:
    return {"id": index, "x": np.full((2,), index, dtype=np.float32), "history": list(range(index % 3))}


def test_collate_pads_the_last_batch() -> None:
    collate = Collate(batch_size=4, jagged=["history"], pad_values={"id": -1})
    batch = collate([sample(4), sample(5)])
    assert (batch.batch_size, batch.num_real) == (4, 2)
    assert batch["id"].tolist() == [4, 5, -1, -1]  # type: ignore[union-attr]
    assert batch["history"].lengths.tolist() == [1, 2, 0, 0]  # type: ignore[union-attr]
    check_invariants(batch)


def test_collate_makes_a_batch_of_nothing_from_an_example() -> None:
    collate = Collate(batch_size=3, jagged=["history"], example=sample(2))
    empty = collate([])
    assert (empty.batch_size, empty.num_real) == (3, 0)
    assert empty.schema() == collate([sample(5)]).schema()
    with pytest.raises(ValueError, match="give Collate an example"):
        Collate(batch_size=3)([])


def test_collate_keeps_the_dtype_of_lists_that_are_empty() -> None:
    collate = Collate(batch_size=2, jagged=["h"], example={"h": [0.5]})
    assert collate([{"h": []}])["h"].values.dtype is torch.float32  # type: ignore[union-attr]
    tensors = Collate(batch_size=1, jagged=["h"])([{"h": torch.zeros(0, dtype=torch.float64)}])
    assert tensors["h"].values.dtype is torch.float64  # type: ignore[union-attr]


def test_batches_of_nothing_share_no_memory() -> None:
    collate = Collate(batch_size=2, example={"y": 1.0})
    collate([])["y"].fill_(9)  # type: ignore[union-attr]
    assert collate([])["y"].tolist() == [0, 0]  # type: ignore[union-attr]


def test_collate_takes_dicts_of_lists_and_dataclasses() -> None:
    samples = [Sample(torch.tensor(1), {"a": [1, 2], "b": []}), Sample(torch.tensor(2), {"a": [], "b": [3]})]
    batch = Collate(batch_size=2, jagged=["history"])(samples)
    field = batch["history"]
    assert isinstance(field, Jagged)
    assert (list(field.keys), field.values.tolist(), field.lengths.tolist()) == (["a", "b"], [1, 2, 3], [2, 0, 0, 1])


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([{"x": 1}] * 3, "got 3 samples for a batch of 2 rows"),
        (["one", "two"], "field '0' holds a str that cannot become a tensor"),
        ([{"x": [1]}, {"x": [1, 2]}], "declare it as jagged"),
    ],
)
def test_collate_refuses_what_it_cannot_stack(samples: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Collate(batch_size=2)(samples)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_dataloader_gives_batches_of_one_size_with_every_sample_once(num_workers: int) -> None:
    seen: list[int] = []
    data: Any = [sample(index) for index in range(22)]
    for rank in range(7):
        sampler = PlanSampler(22, batch_size=3, num_replicas=7, rank=rank)
        collate = Collate(batch_size=3, jagged=["history"], example=data[1])
        batches = list(DataLoader(data, batch_sampler=sampler, collate_fn=collate, num_workers=num_workers))
        assert [batch.batch_size for batch in batches] == [3, 3]
        assert len({batch.schema() for batch in batches}) == 1
        seen += [row["id"].item() for batch in batches for row in batch]
    assert sorted(seen) == list(range(22))


def test_numbers_of_samples_become_what_torch_makes_of_them() -> None:
    collate = Collate(2)
    for values in ([1, 2], [1.5, 2], [True, False], [1.0, -0.1], [True, 3], [2**40, 1]):
        made = collate([{"x": value} for value in values])["x"]
        assert isinstance(made, torch.Tensor)
        assert made.dtype == torch.tensor(values).dtype
        assert torch.equal(made, torch.tensor(values))


@pytest.mark.parametrize("is_worker", [False, True])
def test_numbers_in_the_byte_order_of_another_machine_become_those_of_this_one(
    is_worker: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapters, "_is_worker", lambda: is_worker)
    samples = [np.arange(5000, dtype=">f4") + number for number in range(2)]  # large enough to be shared
    column = Collate(2)(samples)["0"]
    assert isinstance(column, torch.Tensor)
    assert column.tolist() == [each.tolist() for each in samples]
    assert column.is_shared() == is_worker  # type: ignore[no-untyped-call]


def test_arrays_keep_the_order_of_their_axes_in_memory() -> None:
    images = [np.full((6, 5, 3), number, np.uint8).transpose(2, 0, 1) for number in range(4)]
    column = Collate(4)(images)["0"]
    assert isinstance(column, torch.Tensor)
    assert column.is_contiguous(memory_format=torch.channels_last)
    assert [int(each.sum()) for each in column] == [90 * number for number in range(4)]


def test_a_jagged_field_that_samples_do_not_have_is_refused() -> None:
    with pytest.raises(InputError, match=r"jagged names fields that samples do not have: \['wrods'\]"):
        Collate(1, jagged=["words", "wrods"])([{"words": [1, 2]}])
