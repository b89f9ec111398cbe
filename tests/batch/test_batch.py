"""Batches: invariants when built, and every operation keeps them; no row is lost, none is made up."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.sample_batches import make_batch, real_rows
from torch.utils.data import DataLoader

from paceline import Batch, Collate, Jagged, PacelineError, PlanSampler
from paceline.batch import as_batch
from paceline.errors import InputError


def check_invariants(batch: Batch) -> None:
    """What a batch promises: building it anew from its parts must find nothing wrong."""
    again = Batch(batch.to_dict(), batch_size=batch.batch_size, num_real=batch.num_real, pad_values=batch.pad_values)
    assert again.schema() == batch.schema()
    for name in batch.names():
        field = batch[name]
        if isinstance(field, Jagged):
            assert int(field.lengths.sum()) == field.values.shape[0]


SIZES = st.integers(1, 6)


@given(st.integers(0, 5), st.integers(0, 4), st.integers(0, 99), st.data())
def test_any_sequence_of_operations_keeps_rows_and_invariants(
    num_real: int, padding: int, seed: int, data: st.DataObject
) -> None:
    batch = make_batch(seed, num_real, max(1, num_real + padding))
    expected = Counter(real_rows(batch))
    for _ in range(data.draw(st.integers(1, 4))):
        operation = data.draw(st.sampled_from(["pad", "trim", "shuffle", "concat", "split"]))
        if operation == "pad":
            batch = batch.pad_to(batch.batch_size + data.draw(st.integers(0, 3)))
        elif operation == "trim":
            batch = batch.pad_to(max(1, batch.num_real))
        elif operation == "shuffle":
            batch = batch.select(data.draw(st.permutations(range(batch.batch_size))))
        elif operation == "concat":
            other = make_batch(seed + 1, data.draw(st.integers(0, 3)), 3)
            expected += Counter(real_rows(other))
            batch = Batch.concat([batch, other])
        else:
            batch = Batch.concat(batch.split(data.draw(SIZES)))
        check_invariants(batch)
        assert Counter(real_rows(batch)) == expected
        assert batch.num_real == sum(expected.values())


@given(st.integers(1, 6), st.integers(0, 3), st.lists(st.integers(0, 8), min_size=1, max_size=9), st.integers(0, 9))
def test_select_takes_real_rows_in_order_then_padding(num_real: int, padding: int, rows: list[int], seed: int) -> None:
    batch = make_batch(seed, num_real, num_real + padding)
    rows = [row % batch.batch_size for row in rows]
    selected = batch.select(rows)
    everything = real_rows(batch)
    assert real_rows(selected) == [everything[row] for row in rows if row < num_real]
    assert selected.batch_size == len(rows)
    check_invariants(selected)


def test_real_rows_share_memory_and_padding_is_carried() -> None:
    batch = make_batch(0, 2, 4)
    dense = batch["label"]
    assert isinstance(dense, torch.Tensor)
    real = batch.real("label")
    assert isinstance(real, torch.Tensor)
    assert real.data_ptr() == dense.data_ptr()
    jagged = batch.real("history")
    assert isinstance(jagged, Jagged)
    assert (jagged.batch_size, jagged.values.data_ptr()) == (2, batch["history"].values.data_ptr())  # type: ignore[union-attr]


def test_a_real_row_may_be_all_zeros_and_without_values() -> None:
    fields = {
        "y": torch.zeros(3),
        "h": Jagged(keys=["h"], values=torch.zeros(0), lengths=torch.zeros(3, dtype=torch.int64)),
    }
    batch = Batch(fields, batch_size=3, num_real=2)
    assert len(list(batch)) == 2


def test_a_pad_value_other_than_zero_is_kept_by_every_operation() -> None:
    batch = Batch({"user": torch.tensor([5, 7])}, batch_size=2, pad_values={"user": -1}).pad_to(4)
    assert batch["user"].tolist() == [5, 7, -1, -1]  # type: ignore[union-attr]
    assert batch.select([3, 1]).pad_to(3)["user"].tolist() == [7, -1, -1]  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="content in padding row 2"):
        Batch({"user": torch.tensor([5, 7, 0, -1])}, batch_size=4, num_real=2, pad_values={"user": -1})


def test_building_copies_nothing() -> None:
    label = torch.rand(3, 2)
    assert Batch({"label": label}, batch_size=3)["label"] is label


def test_moving_keeps_everything() -> None:
    batch = make_batch(3, 2, 4)
    moved = batch.to("cpu")
    assert real_rows(moved) == real_rows(batch)
    meta = batch.to("meta")
    assert (meta.device.type, meta.num_real, meta["history"].lengths.device.type) == ("meta", 2, "meta")  # type: ignore[union-attr]


def test_recording_a_stream_reaches_every_tensor() -> None:
    reached = []

    class Stream:
        pass

    class Recording(torch.Tensor):
        def record_stream(self, stream: Any) -> None:
            reached.append(stream)

    tensor = torch.zeros(2).as_subclass(Recording)
    lengths = torch.zeros(2, dtype=torch.int64).as_subclass(Recording)
    batch = Batch({"x": tensor, "h": Jagged(keys=["h"], values=tensor[:0], lengths=lengths)}, batch_size=2)
    stream = Stream()
    batch.record_stream(stream)
    assert len(reached) == 3


def test_a_person_can_read_it() -> None:
    assert repr(make_batch(0, 2, 4)) == (
        "Batch(4 rows, 2 real)\n"
        "  label    dense int64\n"
        "  image    dense bfloat16 [2, 3]\n"
        "  flag     dense bool [1]\n"
        "  history  jagged item, action; 4 rows, 4 values int64, weights float32\n"
        "  scores   jagged s; 4 rows, 0 values float64 [2]"
    )


def test_iterating_gives_the_real_rows() -> None:
    jagged = Jagged(keys=["a", "b"], values=torch.arange(5), lengths=torch.tensor([2, 0, 1, 2]))
    rows = list(Batch({"y": torch.tensor([3, 4]), "h": jagged}, batch_size=2))
    assert [row["y"].item() for row in rows] == [3, 4]
    assert [{key: values.tolist() for key, values in row["h"].items()} for row in rows] == [
        {"a": [0, 1], "b": [2]},
        {"a": [], "b": [3, 4]},
    ]


def jagged(**changed: Any) -> Jagged:
    options: dict[str, Any] = {"keys": ["a"], "values": torch.arange(3), "lengths": torch.tensor([1, 2])}
    return Jagged(**(options | changed))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Batch({}, batch_size=2), "at least one field"),
        (lambda: Batch({"x": torch.zeros(3)}, batch_size=2), "field 'x' has 3 rows, but batch_size is 2"),
        (lambda: Batch({"x": torch.zeros(1408)}, batch_size=128), "field 'x' has 1408 rows, but batch_size is 128"),
        (lambda: Batch({"x": torch.tensor(1.0)}, batch_size=1), "field 'x' has None rows"),
        (lambda: Batch({"h": jagged()}, batch_size=3), "field 'h' has 2 rows, but batch_size is 3"),
        (lambda: Batch({"x": torch.zeros(2)}, batch_size=2, num_real=3), "num_real must be a whole number from 0 to 2"),
        (lambda: Batch({"x": torch.zeros(2)}, batch_size=2, num_real=-1), "num_real must be"),
        (lambda: Batch({"x": torch.zeros(2)}, batch_size=True), "batch_size must be"),
        (
            lambda: Batch({"x": torch.tensor([0.0, 1.0])}, batch_size=2, num_real=1),
            "field 'x' has content in padding row 1",
        ),
        (lambda: Batch({"h": jagged()}, batch_size=2, num_real=1), "field 'h' has content in padding row 1"),
        (lambda: Batch({"x": [1, 2]}, batch_size=2), "field 'x' must be a tensor or jagged, got list"),
        (
            lambda: Batch({"x": torch.zeros(1)}, batch_size=1, pad_values={"y": 1}),
            "pad_values names fields that the batch does not have",
        ),
        (lambda: Batch({"h": jagged()}, batch_size=2, num_real=0, pad_values={"h": 1}), "has no value"),
        (lambda: jagged(lengths=torch.tensor([1, 1])), "lengths add up to 2, but there are 3 values"),
        (lambda: jagged(lengths=torch.tensor([-1, 4])), "key 'a', row 0 has -1"),
        (lambda: jagged(lengths=torch.tensor([1.0, 2.0])), "lengths must be int32 or int64"),
        (lambda: jagged(keys=["a", "a"]), "each only once"),
        (lambda: jagged(keys=[]), "at least one"),
        (lambda: jagged(keys=["a", "b", "c"]), "2 do not divide by the 3 keys"),
        (lambda: jagged(weights=torch.zeros(2)), "got 3 values but 2 weights"),
        (lambda: make_batch(0, 2, 4).pad_to(1), "num_rows must be a whole number of at least 2"),
        (lambda: make_batch(0, 2, 4).select([4]), "rows must be from 0 to 3, got 4"),
        (lambda: make_batch(0, 2, 4).select([-1]), "rows must be from 0 to 3, got -1"),
        (lambda: make_batch(0, 2, 4).select([]), "at least one row"),
        (lambda: make_batch(0, 2, 4).select(torch.tensor([True, False])), "pass mask.nonzero"),
        (lambda: make_batch(0, 2, 4).select([0.5]), "rows must be whole numbers"),  # type: ignore[list-item]
        (lambda: Collate(batch_size=1, jagged=["h"])([{"h": []}]), "only empty lists, so its dtype is not known"),
        (lambda: Collate(batch_size=2, jagged=["h"])([{"h": [1]}, {"h": [0.5]}]), "lists of several dtypes"),
        (lambda: Batch.concat([]), "at least one batch"),
        (
            lambda: Batch.concat([as_batch({"x": torch.zeros(1)}), as_batch({"x": torch.zeros(1, 2)})]),
            r"batch 1 differs from batch 0 in its fields: x: dense float32 \[2\] instead of x: dense float32 \[\]",
        ),
    ],
)
def test_wrong_input_names_the_field_and_the_values(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert isinstance(caught.value, PacelineError)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(KeyError, match="there is no field 'x', only label, image"):
        make_batch(0, 1, 1)["x"]


# Adapters.


@dataclass
class Sample:
    x: Any
    history: Any


def test_dicts_and_dataclasses_of_tensors_become_batches() -> None:
    assert as_batch({"x": torch.zeros(3), "h": jagged(lengths=torch.tensor([1, 1, 1]))}).batch_size == 3
    assert as_batch(Sample(torch.zeros(2), jagged()), num_real=2).names() == ["x", "history"]
    with pytest.raises(ValueError, match="expected a dict or a dataclass"):
        as_batch([1])


def test_nested_tensors_go_in_and_out() -> None:
    nested = torch.nested.nested_tensor([torch.arange(2), torch.arange(0), torch.arange(3)], layout=torch.jagged)
    batch = Batch({"seq": nested}, batch_size=3)
    field = batch["seq"]
    assert isinstance(field, Jagged)
    assert field.lengths.tolist() == [2, 0, 3]
    back = field.to_nested()
    assert [part.tolist() for part in back.unbind()] == [[0, 1], [], [0, 1, 2]]
    two = Jagged(keys=["a", "b"], values=torch.arange(4), lengths=torch.tensor([1, 1, 0, 2]))
    assert [part.tolist() for part in two.to_nested("b").unbind()] == [[], [2, 3]]
    with pytest.raises(ValueError, match="name one of a, b"):
        two.to_nested()


class Keyed:
    """The methods of a KeyedJaggedTensor, without torchrec."""

    def __init__(self, keys: list[str], values: Any, lengths: Any, weights: Any = None) -> None:
        self._parts = keys, values, lengths, weights

    def keys(self) -> list[str]:
        return self._parts[0]

    def values(self) -> Any:
        return self._parts[1]

    def lengths(self) -> Any:
        return self._parts[2]

    def weights_or_none(self) -> Any:
        return self._parts[3]

    def stride(self) -> int:
        return int(self._parts[2].numel()) // len(self._parts[0])


def test_keyed_jagged_tensors_go_in_and_out_by_their_methods() -> None:
    keyed = Keyed(["a", "b"], torch.arange(4), torch.tensor([1, 0, 1, 2]), torch.rand(4))
    batch = Batch({"h": keyed}, batch_size=2)
    field = batch["h"]
    assert isinstance(field, Jagged)
    back = field.to_keyed(Keyed)
    assert (back.keys(), back.values().tolist(), back.lengths().tolist()) == (["a", "b"], [0, 1, 2, 3], [1, 0, 1, 2])
    assert back.weights_or_none() is keyed.weights_or_none()


def test_torchrec_itself() -> None:
    sparse = pytest.importorskip(
        "torchrec.sparse.jagged_tensor", reason="torchrec is not installed: `make test-torchrec` installs and runs this"
    )
    keyed = sparse.KeyedJaggedTensor(
        keys=["a", "b"], values=torch.arange(4), lengths=torch.tensor([1, 0, 1, 2]), weights=torch.rand(4)
    )
    batch = Batch({"h": keyed}, batch_size=2).pad_to(3)
    field = batch.select([1, 0])["h"]
    assert isinstance(field, Jagged)
    back = field.to_keyed(sparse.KeyedJaggedTensor)
    assert back.to_dict()["b"].values().tolist() == [2, 3, 1]
    assert back.stride() == 2


# Collating.


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


def test_batches_padded_with_nan_can_be_put_together() -> None:
    parts = [Batch({"x": torch.ones(1)}, batch_size=1, pad_values={"x": float("nan")}).pad_to(2) for _ in range(2)]
    assert Batch.concat(parts)["x"].isnan().tolist() == [False, False, True, True]  # type: ignore[union-attr]


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


def test_batches_have_the_same_fields_exactly_where_their_schemas_are_equal() -> None:
    lists = Jagged(keys=["a"], values=torch.arange(3), lengths=torch.tensor([1, 2]))
    weighted = Jagged(keys=["a"], values=torch.arange(3), lengths=torch.tensor([1, 2]), weights=torch.ones(3))
    kinds: list[dict[str, Any]] = [
        {"x": torch.zeros(2, 3)},
        {"x": torch.zeros(2, 3, dtype=torch.float64)},
        {"x": torch.zeros(2, 4)},
        {"y": torch.zeros(2, 3)},
        {"x": torch.zeros(2, 3), "y": torch.zeros(2)},
        {"x": lists},
        {"x": weighted},
        {"x": Jagged(keys=["b"], values=torch.arange(3), lengths=torch.tensor([1, 2]))},
        {"x": Jagged(keys=["a"], values=torch.arange(3.0), lengths=torch.tensor([1, 2]))},
        {"x": Jagged(keys=["a"], values=torch.arange(3), lengths=torch.tensor([1, 2], dtype=torch.int32))},
    ]
    batches = [Batch(fields, batch_size=2) for fields in kinds]
    for batch in batches:
        for other in batches:
            assert batch.has_fields_of(other.pad_to(5)) == (batch.schema() == other.schema()) == (batch is other)


def test_a_field_is_added_and_taken_away() -> None:
    batch = Batch({"x": torch.ones(2)}, batch_size=2, pad_values={"x": 7}).pad_to(3)
    added = batch.with_field("ids", torch.tensor([4, 5, 0]))
    assert added.names() == ["x", "ids"]
    assert added.without("ids").to_dict().keys() == {"x"}
    assert added.without("x").pad_values == {}
    assert (batch.schema(), added.without("ids").schema()) == (batch.schema(), batch.schema())
    with pytest.raises(ValueError, match="has content in padding row 2"):
        batch.with_field("ids", torch.tensor([4, 5, 6]))
    with pytest.raises(ValueError, match="has 2 rows, but batch_size is 3"):
        batch.with_field("ids", torch.tensor([4, 5]))


def test_numbers_of_samples_become_what_torch_makes_of_them() -> None:
    collate = Collate(2)
    for values in ([1, 2], [1.5, 2], [True, False], [1.0, -0.1], [True, 3], [2**40, 1]):
        made = collate([{"x": value} for value in values])["x"]
        assert isinstance(made, torch.Tensor)
        assert made.dtype == torch.tensor(values).dtype
        assert torch.equal(made, torch.tensor(values))


@pytest.mark.filterwarnings("ignore")  # torch calls some of these kinds of tensors unfinished, or outdated
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda ones: ones.to_sparse(), "is a sparse_coo tensor"),
        (lambda ones: ones.to_sparse_csr(), "is a sparse_csr tensor"),
        (lambda ones: ones.to_mkldnn(), "is a mkldnn tensor"),
        (lambda ones: torch.quantize_per_tensor(ones, 0.1, 0, torch.qint8), "is quantised"),
        (lambda ones: ones.to("meta"), "is a meta tensor"),
    ],
)
def test_a_tensor_without_plain_rows_is_refused_by_the_name_of_its_field(make: Any, message: str) -> None:
    tensor = make(torch.ones(2, 3))
    with pytest.raises(InputError, match=f"field 'user' {message}"):
        Batch({"user": tensor}, batch_size=2)
    with pytest.raises(InputError, match=f"field 'user' {message}"):
        Batch({"user": Jagged(keys=["a"], values=tensor, lengths=torch.tensor([1, 1]))}, batch_size=2)
    with pytest.raises(InputError, match=f"field 'user' {message}"):
        Collate(2)([{"user": tensor}, {"user": tensor}])


def test_a_jagged_field_that_samples_do_not_have_is_refused() -> None:
    with pytest.raises(InputError, match=r"jagged names fields that samples do not have: \['wrods'\]"):
        Collate(1, jagged=["words", "wrods"])([{"words": [1, 2]}])


def test_a_pickled_batch_comes_back_as_it_was() -> None:
    batch = Batch({"x": torch.arange(2.0)}, batch_size=2, pad_values={"x": 7}).pad_to(4)
    batch.schema()
    again = pickle.loads(pickle.dumps(batch))
    assert (again.batch_size, again.num_real, again.pad_values) == (4, 2, {"x": 7})
    assert again["x"].tolist() == [0, 1, 7, 7]
    assert again.schema() == batch.schema()
