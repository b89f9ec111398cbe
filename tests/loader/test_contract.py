"""The check: it names the first step and the ranks that differ, and counts what is lost or repeated."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, TensorDataset

from paceline import PacelineError, PlanSampler, Tail
from paceline.loader import check_contract
from paceline.loader.check.contract_result import Difference

Pair = namedtuple("Pair", ["x", "y"])


@dataclass
class Record:
    x: Any
    note: str = "a"


def test_unequal_steps_are_named_with_the_ranks_and_the_first_step() -> None:
    result = check_contract(lambda rank, _: [[0]] * (3 if rank == 6 else 5), 7)
    (broken,) = result.broken
    assert (broken.kind, broken.step, broken.ranks) == (Difference.STEPS, 3, (6,))
    assert [(group.ranks, group.value) for group in broken.groups] == [((0, 1, 2, 3, 4, 5), "5"), ((6,), "3")]
    assert not result.holds


@pytest.mark.parametrize(
    ("odd", "kind", "field"),
    [
        (torch.zeros(2, 4), Difference.SHAPE, "x"),
        (torch.zeros(3, 4, dtype=torch.float64), Difference.DTYPE, "x"),
        (np.zeros((3, 4), dtype=np.float32), Difference.DTYPE, "x"),
    ],
)
@pytest.mark.parametrize("kind_of_batch", [lambda x: {"x": x}, lambda x: Pair(x, 0), Record])
def test_an_odd_tensor_is_named(odd: Any, kind: Difference, field: str, kind_of_batch: Any) -> None:
    def factory(rank: int, world_size: int) -> Iterator[Any]:
        for step in range(4):
            yield kind_of_batch(odd if (rank, step) == (2, 1) else torch.zeros(3, 4))

    result = check_contract(factory, 5)
    assert [(b.kind, b.step, b.field, b.ranks) for b in result.broken] == [(kind, 1, field, (2,))]


def test_only_the_first_differing_step_is_told() -> None:
    result = check_contract(lambda rank, _: [np.zeros(3), np.zeros(3 + rank), np.zeros(4 + rank)], 2)
    assert [(b.step, b.kind) for b in result.broken] == [(1, Difference.SHAPE)]


def test_a_missing_field_is_told() -> None:
    def factory(rank: int, world_size: int) -> list[Any]:
        return [{"x": np.zeros(1)} | ({"mask": np.ones(1)} if rank else {})]

    (broken,) = check_contract(factory, 4).broken
    assert (broken.kind, broken.ranks) == (Difference.FIELDS, (0,))
    assert [group.value for group in broken.groups] == ["mask, x", "x"]


def test_nested_fields_and_lists_have_paths() -> None:
    def factory(rank: int, world_size: int) -> list[Any]:
        return [({"a": [np.zeros(2), np.zeros(2 + rank)]}, ["text"] * 2)]

    (broken,) = check_contract(factory, 2).broken
    assert broken.field == "[0].a[1]"


def test_ragged_fields_may_differ_in_shape_but_not_in_dtype() -> None:
    def factory(rank: int, world_size: int) -> list[Any]:
        return [{"x": np.zeros(2 + rank, dtype=np.float32 if rank else np.float64)}]

    result = check_contract(factory, 2, ragged=["x"])
    assert [broken.kind for broken in result.broken] == [Difference.DTYPE]


class Jagged:
    """Like a KeyedJaggedTensor: keys, values and lengths are methods."""

    def __init__(self, lengths: list[int], dtype: str = "int64") -> None:
        self._lengths, self._dtype = np.array(lengths), dtype

    def keys(self) -> list[str]:
        return ["item"]

    def lengths(self) -> Any:
        return self._lengths

    def values(self) -> Any:
        return np.zeros(self._lengths.sum(), dtype=self._dtype)


def test_jagged_values_may_differ_in_number_but_lengths_may_not() -> None:
    assert check_contract(lambda rank, _: [{"h": Jagged([1, rank])}], 3).holds
    (broken,) = check_contract(lambda rank, _: [{"h": Jagged([1] * (1 + rank))}], 2).broken
    assert broken.field == "h.lengths"
    (broken,) = check_contract(lambda rank, _: [{"h": Jagged([1], "int32" if rank else "int64")}], 2).broken
    assert (broken.field, broken.kind) == ("h.values", Difference.DTYPE)


def test_a_rank_that_raises_is_named_with_its_error() -> None:
    def factory(rank: int, world_size: int) -> Iterator[list[int]]:
        yield [1]
        if rank == 1:
            raise OSError("corrupt file")
        yield [2]

    result = check_contract(factory, 3)
    assert [b.kind for b in result.broken] == [Difference.RAISED, Difference.STEPS]
    assert (result.broken[0].ranks, result.broken[0].step) == ((1,), 1)
    assert result.broken[0].groups[0].value.startswith("OSError: corrupt file (test_contract.py:")


def test_a_factory_that_raises_is_told() -> None:
    def factory(rank: int, world_size: int) -> list[Any]:
        raise RuntimeError("no data")

    assert check_contract(factory, 2).broken[0].ranks == (0, 1)


def test_a_run_that_does_nothing_is_broken() -> None:
    result = check_contract(lambda rank, world_size: [], 3)
    assert [broken.kind for broken in result.broken] == [Difference.EMPTY]


def test_endless_batches_are_cut() -> None:
    def endless(rank: int, world_size: int) -> Iterator[list[int]]:
        while True:
            yield [rank]

    result = check_contract(endless, 2, max_steps=10)
    assert result.steps == (10, 10)
    assert result.is_cut
    assert result.holds


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 4), st.sampled_from(list(Tail)))
def test_the_ids_of_a_sampler_are_counted_as_its_plan_says(
    num_samples: int, world_size: int, batch_size: int, tail: Tail
) -> None:
    def factory(rank: int, world_size: int) -> PlanSampler:
        return PlanSampler(
            num_samples, batch_size=batch_size, num_replicas=world_size, rank=rank, tail=tail, stand_in=0
        )

    try:
        summary = factory(0, world_size).plan.summary()
    except PacelineError:
        return
    result = check_contract(factory, world_size, num_samples=num_samples)
    assert result.holds
    assert result.ids is not None
    assert result.ids.num_distinct == summary.num_used
    assert result.ids.num_lost == summary.num_dropped
    assert result.ids.num_repeated == summary.num_repeated


@pytest.mark.parametrize(
    "shape_of_batch",
    [
        lambda ids: ids,
        np.array,
        torch.tensor,
        lambda ids: {"x": torch.zeros(len(ids), 2), "sample_id": torch.tensor(ids)},
        lambda ids: {"idx": ids},
        lambda ids: {"id": torch.tensor([*ids, -1])},  # -1 is padding
    ],
)
def test_ids_are_found_where_they_usually_are(shape_of_batch: Any) -> None:
    def factory(rank: int, world_size: int) -> list[Any]:
        return [shape_of_batch([rank, 7])]

    ids = check_contract(factory, 3, num_samples=10).ids
    assert ids is not None
    assert (ids.num_rows, ids.num_distinct, ids.num_repeated, ids.repeated) == (6, 4, 2, (7,))
    assert (ids.num_lost, ids.lost) == (6, (3, 4, 5, 6, 8, 9))


@pytest.mark.parametrize(("path", "batch"), [("meta.key", {"meta": {"key": [4, 5]}}), ("1", ("x", [4, 5]))])
def test_ids_can_be_pointed_at(path: str, batch: Any) -> None:
    ids = check_contract(lambda rank, _: [batch], 1, ids=path).ids
    assert ids is not None
    assert (ids.num_distinct, ids.num_lost) == (2, None)


@pytest.mark.parametrize("batch", [{"x": torch.zeros(3)}, [True, False], torch.zeros(2, 2, dtype=torch.int64), "abc"])
def test_what_is_no_id_is_not_taken_for_one(batch: Any) -> None:
    assert check_contract(lambda rank, _: [batch], 2).ids is None


def test_accelerate_shards_and_dataloaders_can_be_checked() -> None:
    def shard(rank: int, world_size: int) -> Any:
        batches = BatchSampler(SequentialSampler(range(100)), batch_size=3, drop_last=False)
        return BatchSamplerShard(batches, num_processes=world_size, process_index=rank, even_batches=True)

    def loader(rank: int, world_size: int) -> Any:
        data = TensorDataset(torch.arange(100))
        return DataLoader(data, batch_sampler=shard(rank, world_size))

    for factory in (shard, loader):
        result = check_contract(factory, 7, ids="0" if factory is loader else None, num_samples=100)
        assert result.holds
        assert result.ids is not None
        assert (result.ids.num_repeated, result.ids.num_lost) == (5, 0)


def test_exactly_once_is_a_contract_only_when_asked_for() -> None:
    assert check_contract(lambda rank, _: [[0]], 2, num_samples=2).holds
    assert not check_contract(lambda rank, _: [[0]], 2, num_samples=2, exactly_once=True).holds
    assert check_contract(lambda rank, _: [[rank]], 2, num_samples=2, exactly_once=True).holds


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": "nope"}, "the batch has no ids at 'nope': at 'nope' it has id, x"),
        ({"ids": "x"}, "not one list of whole numbers"),
        ({"num_samples": 3}, "id 5 cannot be of a dataset of 3 samples"),
        ({"exactly_once": True}, "the size of the dataset is not known"),
        ({"num_samples": -1}, "num_samples must be"),
        ({"ragged": ["y"]}, "no batch has the ragged field 'y'"),
        ({"max_steps": 0}, "max_steps must be"),
    ],
)
def test_questions_that_cannot_be_answered_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_contract(lambda rank, _: [{"id": [5], "x": torch.zeros(1, 1)}], 2, **options)


def test_the_length_of_a_subset_is_not_taken_for_the_dataset() -> None:
    def factory(rank: int, world_size: int) -> Any:
        data: Any = list(range(40))
        part = torch.utils.data.Subset(data, list(range(rank * 10, rank * 10 + 10)))
        return DataLoader(part, batch_size=5)

    ids = check_contract(factory, 4).ids
    assert ids is not None
    assert (ids.num_expected, ids.num_lost) == (40, 0)


def test_exactly_once_needs_ids() -> None:
    with pytest.raises(PacelineError, match="no ids were found"):
        check_contract(lambda rank, _: [{"x": torch.zeros(1)}], 2, exactly_once=True)


def test_a_rank_that_exits_is_told_and_not_obeyed() -> None:
    def factory(rank: int, world_size: int) -> list[Any]:
        if rank == 1:
            raise SystemExit(0)
        return [[0]]

    assert [b.kind for b in check_contract(factory, 2).broken] == [Difference.RAISED, Difference.STEPS]


class Plain:
    def __init__(self, rows: int) -> None:
        self.x = torch.zeros(rows, 4)


class Sealed:
    __slots__ = ("x",)


def test_objects_are_looked_into_and_those_that_cannot_be_are_named() -> None:
    (broken,) = check_contract(lambda rank, _: [Plain(2 + rank)], 2).broken
    assert (broken.kind, broken.field) == (Difference.SHAPE, "x")
    assert check_contract(lambda rank, _: [{"a": Sealed()}], 2).unknown == ("Sealed",)


def test_the_order_of_keys_does_not_matter() -> None:
    assert check_contract(lambda rank, _: [{"a": 1, "b": 2.0} if rank else {"b": 2.0, "a": 1}], 2).holds


@pytest.mark.parametrize(
    "batch",
    [
        torch.zeros(3, dtype=torch.bfloat16),
        torch.zeros(3, requires_grad=True),
        torch.zeros(3, dtype=torch.int64, device="meta"),
        torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
        np.zeros(3, dtype=np.uint64),
    ],
)
def test_tensors_that_numpy_cannot_read_are_no_ids_but_are_compared(batch: Any) -> None:
    result = check_contract(lambda rank, _: [batch], 2)
    assert result.holds
    assert result.ids is None


def test_a_batch_that_holds_itself_is_refused() -> None:
    batch: dict[str, Any] = {}
    batch["self"] = batch
    with pytest.raises(PacelineError, match="does it hold itself"):
        check_contract(lambda rank, _: [batch], 2)


def test_a_huge_dataset_is_not_listed() -> None:
    ids = check_contract(lambda rank, _: [[0, 2]], 1, num_samples=10**18).ids
    assert ids is not None
    assert (ids.num_lost, ids.lost[:2]) == (10**18 - 2, (1, 3))


def test_the_first_step_is_where_the_first_rank_leaves() -> None:
    (broken,) = check_contract(lambda rank, _: [[0]] * (5, 5, 5, 4, 2)[rank], 5).broken
    assert (broken.step, broken.ranks) == (2, (3, 4))
    assert [group.value for group in broken.groups] == ["5", "4", "2"]


def test_the_first_of_several_errors_gives_the_step() -> None:
    def factory(rank: int, world_size: int) -> Iterator[list[int]]:
        for _ in range(3 - rank):
            yield [0]
        raise OSError(f"rank {rank}")

    assert check_contract(factory, 3).broken[0].step == 1


def test_fields_are_compared_also_where_a_rank_has_left() -> None:
    def factory(rank: int, world_size: int) -> list[Any]:
        return [np.zeros(1)] if rank == 0 else [np.zeros(1), np.zeros(rank)]

    kinds = [(broken.kind, broken.step) for broken in check_contract(factory, 3).broken]
    assert kinds == [(Difference.STEPS, 1), (Difference.SHAPE, 1)]


def test_an_empty_list_differs_in_shape_alone() -> None:
    (broken,) = check_contract(lambda rank, _: [[1] * rank], 2).broken
    assert broken.kind is Difference.SHAPE


def test_ranks_that_disagree_on_the_dataset_give_no_size() -> None:
    class Loader(list[list[int]]):
        def __init__(self, size: int) -> None:
            super().__init__([[0, 1]])
            self.dataset = range(size)

    ids = check_contract(lambda rank, _: Loader(10 + rank), 2).ids
    assert ids is not None
    assert ids.num_expected is None
    ids = check_contract(lambda rank, _: Loader(1), 2).ids
    assert ids is not None
    assert ids.num_expected is None, "id 1 cannot be of a dataset of one sample"


def test_ids_that_come_twice_are_the_repeated_ones() -> None:
    ids = check_contract(lambda rank, _: [[0, 1, 1, 2]], 1).ids
    assert ids is not None
    assert (ids.repeated, ids.num_repeated) == ((1,), 1)


def test_of_several_id_fields_the_first_usual_name_counts() -> None:
    ids = check_contract(lambda rank, _: [{"index": [8], "id": [3]}], 1, num_samples=4).ids
    assert ids is not None
    assert ids.lost == (0, 1, 2)


def test_what_is_cut_is_not_called_lost() -> None:
    ids = check_contract(lambda rank, _: [[0], [1]], 1, num_samples=2, max_steps=1).ids
    assert ids is not None
    assert (ids.num_lost, ids.lost) == (None, ())
    with pytest.raises(PacelineError, match="batches that are cut"):
        check_contract(lambda rank, _: [[0], [1]], 1, num_samples=2, max_steps=1, exactly_once=True)


def test_keys_of_a_jagged_field_must_agree() -> None:
    class Named(Jagged):
        def __init__(self, key: str) -> None:
            super().__init__([1])
            self._key = key

        def keys(self) -> list[str]:
            return [self._key]

    (broken,) = check_contract(lambda rank, _: [{"h": Named("ab"[rank])}], 2).broken
    assert (broken.field, [group.value for group in broken.groups]) == ("h.keys", ["a", "b"])
