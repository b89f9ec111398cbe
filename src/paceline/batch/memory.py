"""The few operations on memory that parcels need: rows on a device by torch, messages also as numpy arrays.

What a rank has in the host's memory is packed by compiled functions instead (`host_rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

Memory = Any  # a message or a parcel: numpy.ndarray or torch.Tensor of bytes

_NUMBERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# Tensors.


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory of a tensor as bytes."""
    whole = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return _viewable(whole.view(-1), 1).view(torch.uint8)


def tensor_of(content: torch.Tensor, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Return bytes as a tensor of that dtype and shape; the bytes must be contiguous."""
    return _viewable(content, dtype.itemsize).view(dtype).view(tuple(shape))


def viewed(content: torch.Tensor, unit: int) -> torch.Tensor:
    """Return contiguous memory as whole numbers of `unit` bytes each; 1 gives bytes."""
    return _viewable(content, unit).view(_NUMBERS[unit])


def _viewable(tensor: torch.Tensor, itemsize: int) -> torch.Tensor:
    """Return a tensor whose memory can be viewed as items of another size: aligned to one, and without gaps."""
    start = tensor.storage_offset() * tensor.element_size()
    if start % itemsize or (tensor.dim() and tensor.stride(-1) != 1):
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
    return tensor


def starts_of(sizes: torch.Tensor) -> torch.Tensor:
    """Return where each list starts if lists of these sizes lie one after the other."""
    flat = sizes.reshape(-1)
    return (flat.cumsum(0) - flat).reshape(sizes.shape)


def lists_of(arena: torch.Tensor, starts: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Return lists of the arena, each given by start and size, one after the other."""
    shift = (starts - starts_of(sizes)).reshape(-1)
    indices = torch.repeat_interleave(shift, sizes.reshape(-1))  # of each unit of each list in the arena
    indices += torch.arange(indices.numel(), device=indices.device)
    return arena.index_select(0, indices)


def scaled(lengths: torch.Tensor, columns: Sequence[int], factors: Sequence[int]) -> torch.Tensor:
    """Return columns of lengths, each multiplied by its factor."""
    if list(columns) != list(range(lengths.shape[1])):
        lengths = lengths[:, list(columns)]
    if all(factor == 1 for factor in factors):
        return lengths
    return lengths * torch.tensor(factors, device=lengths.device)


# Messages.


def joined(parts: Sequence[Memory]) -> Memory:
    """Return the parts joined one after the other."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else torch.cat(list(parts))


def zeros_like(memory: Memory, shape: tuple[int, ...]) -> Memory:
    """Return zeroed bytes on the same device as the memory."""
    if isinstance(memory, np.ndarray):
        return np.zeros(shape, dtype=np.uint8)
    return torch.zeros(shape, dtype=torch.uint8, device=memory.device)


def new_messages(like: Memory, num_bytes: int, rows: list[list[int]]) -> Memory:
    """Return zeroed messages, (message, num_bytes), each with a row of int64 at its start; bytes divide by 8."""
    if isinstance(like, np.ndarray):
        numbers = np.zeros((len(rows), num_bytes // 8), np.int64)
        if rows:
            numbers[:, : len(rows[0])] = rows
        return numbers.view(np.uint8)
    messages = zeros_like(like, (len(rows), num_bytes))
    if rows:
        content = torch.tensor(rows, dtype=torch.int64).view(torch.uint8)
        messages[:, : content.shape[1]] = content.to(like.device)
    return messages


def read_numbers(messages: Memory, count: int) -> list[list[int]]:
    """Read `count` int64 from the start of each message."""
    starts = messages[:, : 8 * count]
    numbers: list[list[int]] = (
        starts.view(np.int64) if isinstance(starts, np.ndarray) else viewed(starts.contiguous(), 8)
    ).tolist()
    return numbers
