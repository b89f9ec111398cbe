"""How a worker sends a batch: small tensors as bytes, large ones as torch does.

torch sends every tensor through a file of its own, which the receiver asks the sender for over a new connection. That
takes a few hundred microseconds of the processor for each, whatever its size: a small tensor is copied in a few.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch

from paceline.batch import Batch, Jagged

_SMALL_BYTES = 16384  # of a tensor; `Collate` puts larger ones into shared memory at once


class SentBatch:
    """Takes the place of a batch while it is pickled; what is unpickled is the batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __reduce__(self) -> tuple[Any, ...]:
        restore, (by_name, *others) = self._batch.__reduce__()
        return restore, ({name: _sent(field) for name, field in by_name.items()}, *others)


class _SentJagged:
    def __init__(self, jagged: Jagged) -> None:
        self._jagged = jagged

    def __reduce__(self) -> tuple[Any, ...]:
        return _received_jagged, tuple(_sent(getattr(self._jagged, field.name)) for field in fields(Jagged))


class _SentTensor:
    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __reduce__(self) -> tuple[Any, ...]:
        content = self._tensor.view(torch.uint8).numpy().tobytes()  # numpy does not know all dtypes
        return _received, (content, self._tensor.dtype, tuple(self._tensor.shape))


def _received_jagged(*parts: Any) -> Jagged:
    """Return lists that were right when they were sent: nothing is checked again."""
    jagged = object.__new__(Jagged)
    for field, part in zip(fields(Jagged), parts, strict=True):
        object.__setattr__(jagged, field.name, part)
    return jagged


def _sent(part: Any) -> Any:
    if isinstance(part, Jagged):
        return _SentJagged(part)
    if type(part) is not torch.Tensor:
        return part
    tensor = part.resolve_conj().resolve_neg()  # torch would send the numbers, and not that they are to be turned
    return _SentTensor(tensor) if _is_small(tensor) else tensor


def _is_small(tensor: torch.Tensor) -> bool:
    """Say whether a tensor is small, and bytes, dtype and shape say everything of it."""
    if not (0 < tensor.nbytes < _SMALL_BYTES and tensor.is_cpu and tensor.layout is torch.strided):
        return False
    return tensor.is_contiguous() and not tensor.requires_grad


def _received(content: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    # a bytearray: the tensor can be written, and has memory of its own
    return torch.frombuffer(bytearray(content), dtype=dtype).view(shape)
