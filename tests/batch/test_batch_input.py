"""Dicts, dataclasses, nested and keyed tensors become batches, and wrong input is refused by the name of its field."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.batch.batch_checks import Sample
from tests.helpers.sample_batches import make_batch

from paceline import Batch, Collate, Jagged, PacelineError
from paceline.batch import as_batch
from paceline.errors import InputError


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
