"""Every operation on a batch keeps what a batch promises: no row is lost, none is made up."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.batch.batch_checks import check_invariants
from tests.helpers.sample_batches import make_batch, real_rows

from paceline import Batch, Jagged

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


def test_batches_padded_with_nan_can_be_put_together() -> None:
    parts = [Batch({"x": torch.ones(1)}, batch_size=1, pad_values={"x": float("nan")}).pad_to(2) for _ in range(2)]
    assert Batch.concat(parts)["x"].isnan().tolist() == [False, False, True, True]  # type: ignore[union-attr]


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


def test_a_pickled_batch_comes_back_as_it_was() -> None:
    batch = Batch({"x": torch.arange(2.0)}, batch_size=2, pad_values={"x": 7}).pad_to(4)
    batch.schema()
    again = pickle.loads(pickle.dumps(batch))
    assert (again.batch_size, again.num_real, again.pad_values) == (4, 2, {"x": 7})
    assert again["x"].tolist() == [0, 1, 7, 7]
    assert again.schema() == batch.schema()
