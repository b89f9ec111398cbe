"""What a worker sends arrives as it was, and small tensors take no file of their own."""

from __future__ import annotations

import pickle
from multiprocessing import resource_sharer
from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch

from paceline import Batch, Jagged
from paceline.loader.streams.stream_loader import StreamPiece
from paceline.loader.workers.step_loader import LoadedStep

FIELDS: dict[str, Any] = {
    "floats": torch.rand(4, 3),
    "none": torch.rand(4, 0),
    "flags": torch.tensor([True, False, True, False]),
    "complex": torch.rand(4, dtype=torch.complex64),
    "conjugate": torch.rand(4, dtype=torch.complex64).conj(),
    "negative": torch._neg_view(torch.rand(4)),
    "brain": torch.rand(4, 2).to(torch.bfloat16),
    "quarter": torch.rand(4, 2).to(torch.float8_e4m3fn),
    "turned": torch.rand(3, 4).T,
    "last": torch.rand(4, 3, 2, 2).to(memory_format=torch.channels_last),
    "learned": torch.rand(4).requires_grad_(),
    "large": torch.rand(4, 5000),
    "lists": Jagged(keys=["a"], values=torch.arange(5), lengths=torch.tensor([2, 0, 3, 0])),
    "weighted": Jagged(
        keys=["a", "b"],
        values=torch.rand(3, 2),
        lengths=torch.tensor([1, 0, 0, 0, 2, 0, 0, 0], dtype=torch.int32),
        weights=torch.rand(3),
    ),
}


def parts_of(field: Any) -> list[Any]:
    return [field.keys, field.values, field.lengths, field.weights] if isinstance(field, Jagged) else [field]


def are_shared(field: Any) -> list[bool]:
    tensors: list[Any] = [part for part in parts_of(field) if isinstance(part, torch.Tensor)]
    return [tensor.is_shared() for tensor in tensors]


def bytes_of(tensor: torch.Tensor) -> list[int]:
    numbers: list[int] = tensor.detach().resolve_conj().resolve_neg().contiguous().view(torch.uint8).tolist()
    return numbers


def sent(value: Any) -> Any:
    try:
        return pickle.loads(ForkingPickler.dumps(value))
    finally:
        resource_sharer.stop(timeout=10)  # the thread that hands out files


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_a_worker_sends_arrives_as_it_was(name: str) -> None:
    batch = sent(LoadedStep(batch=Batch({name: FIELDS[name]}, batch_size=4), ids=[1, 2, 3, 4], num_rows=4)).batch
    for found, given in zip(parts_of(batch[name]), parts_of(FIELDS[name]), strict=True):
        if not isinstance(given, torch.Tensor):
            assert found == given
            continue
        for what in ("dtype", "shape", "requires_grad"):
            assert getattr(found, what) == getattr(given, what)
        assert found.stride() == given.stride()
        assert bytes_of(found) == bytes_of(given)


def test_padding_and_all_else_of_a_step_arrive() -> None:
    batch = Batch({"x": torch.tensor([1.0, -1.0])}, batch_size=2, num_real=1, pad_values={"x": -1})
    step = sent(LoadedStep(batch=batch, ids=[7], num_rows=2, skipped=[(3, "lost")]))
    assert (step.batch.num_real, step.batch.batch_size, step.batch.pad_values) == (1, 2, {"x": -1})
    assert (step.ids, step.num_rows, step.skipped, step.problem) == ([7], 2, [(3, "lost")], None)
    step.batch["x"][0] = 5.0  # it has memory of its own
    assert sent(LoadedStep(batch=None, ids=[], num_rows=2)).batch is None


@pytest.mark.parametrize("make", [lambda batch: LoadedStep(batch=batch, ids=[], num_rows=4), lambda batch: batch])
def test_small_tensors_take_no_file_only_on_their_way_from_a_worker(make: Any) -> None:
    fields = {"x": torch.rand(4), "lists": Jagged(keys=["a"], values=torch.rand(4), lengths=torch.ones(4).long())}
    batch = Batch(fields, batch_size=4)
    sent(make(batch))
    is_batch_itself = make(batch) is batch  # what people send by themselves is shared, as torch does it
    assert are_shared(batch["x"]) + are_shared(batch["lists"]) == [is_batch_itself] * 3


def test_a_piece_of_a_stream_arrives_without_a_file() -> None:
    batch = Batch({"x": torch.rand(4)}, batch_size=4)
    piece = sent(StreamPiece(batch=batch, read={2: 5}))
    assert torch.equal(piece.batch["x"], batch["x"])  # type: ignore[arg-type]
    assert (piece.read, are_shared(batch["x"])) == ({2: 5}, [False])
