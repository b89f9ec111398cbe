"""The few operations that packing needs, on numpy arrays for CPU memory and on torch tensors for any other.

For arrays of a few kilobytes numpy takes a quarter of torch's time per call, and packing is nothing but such calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

Memory = Any  # numpy.ndarray or torch.Tensor; one kind throughout a call

_NUMPY = {"bytes": np.uint8, 1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}
_TORCH = {"bytes": torch.uint8, 1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
# dtypes that numpy has too: all others, even future ones, go through torch's own view
_KNOWN = {torch.float32: np.float32, torch.float64: np.float64, torch.int64: np.int64, torch.int32: np.int32}


def bytes_of(tensor: torch.Tensor) -> Memory:
    """Return the memory of a tensor as bytes."""
    whole = tensor.detach()
    if whole.is_conj() or whole.is_neg():
        whole = whole.resolve_conj().resolve_neg()
    whole = whole.contiguous()
    if whole.device.type != "cpu":
        return _viewable(whole.view(-1), 1).view(torch.uint8)
    if whole.dtype in _KNOWN:
        return whole.numpy().reshape(-1).view(np.uint8)
    return whole.view(-1).view(torch.uint8).numpy()


def numbers_of(tensor: torch.Tensor) -> Memory:
    """Return whole numbers as int64."""
    return tensor.numpy().astype(np.int64, copy=False) if tensor.device.type == "cpu" else tensor.to(torch.int64)


def tensor_of(memory: Memory, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Return bytes as a tensor of that dtype and shape; the bytes must be contiguous."""
    if isinstance(memory, np.ndarray) and dtype in _KNOWN:
        numbers = memory.view(_KNOWN[dtype])
        return torch.from_numpy((numbers if numbers.flags.aligned else numbers.copy()).reshape(shape))
    flat = torch.from_numpy(memory) if isinstance(memory, np.ndarray) else memory
    return _viewable(flat, dtype.itemsize).view(dtype).view(tuple(shape))


def viewed(memory: Memory, unit: int) -> Memory:
    """Return contiguous memory as whole numbers of `unit` bytes each; 1 gives bytes."""
    if isinstance(memory, np.ndarray):
        return memory.view(_NUMPY[unit])
    return _viewable(memory, unit).view(_TORCH[unit])


def _viewable(tensor: torch.Tensor, itemsize: int) -> torch.Tensor:
    """Return a tensor whose memory can be viewed as items of another size: aligned to one, and without gaps."""
    start = tensor.storage_offset() * tensor.element_size()
    if start % itemsize or (tensor.dim() and tensor.stride(-1) != 1):
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
    return tensor


def joined(parts: Sequence[Memory], axis: int = 0) -> Memory:
    """Return the parts joined one after the other."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, axis) if isinstance(parts[0], np.ndarray) else torch.cat(list(parts), axis)


def together(memory: Memory) -> Memory:
    """Return the same content in contiguous memory."""
    return np.ascontiguousarray(memory) if isinstance(memory, np.ndarray) else memory.contiguous()


def taken(memory: Memory, order: np.ndarray[Any, np.dtype[np.int64]]) -> Memory:
    """Return the lines that the order names."""
    if isinstance(memory, np.ndarray):
        return memory.take(order, axis=0)
    return memory.index_select(0, torch.from_numpy(order).to(memory.device))


def starts_of(sizes: Memory) -> Memory:
    """Return where each list starts if lists of these sizes lie one after the other."""
    flat = sizes.reshape(-1)
    return (flat.cumsum(0) - flat).reshape(sizes.shape)


def lists_of(arena: Memory, starts: Memory, sizes: Memory) -> Memory:
    """Return lists of the arena, each given by start and size, one after the other."""
    shift = (starts - starts_of(sizes)).reshape(-1)
    flat = sizes.reshape(-1)
    indices: Memory  # of each unit of each list in the arena
    if isinstance(arena, np.ndarray):
        indices = np.repeat(shift, flat)
        indices += np.arange(indices.size)
        return arena.take(indices)
    indices = torch.repeat_interleave(shift, flat)
    indices += torch.arange(indices.numel(), device=indices.device)
    return arena.index_select(0, indices)


def scaled(lengths: Memory, columns: Sequence[int], factors: Sequence[int]) -> Memory:
    """Return columns of lengths, each multiplied by its factor."""
    if list(columns) != list(range(lengths.shape[1])):
        lengths = lengths[:, list(columns)]
    if all(factor == 1 for factor in factors):
        return lengths
    numbers = np.array(factors)
    return lengths * (numbers if isinstance(lengths, np.ndarray) else torch.from_numpy(numbers).to(lengths.device))


def zeros_like(memory: Memory, shape: tuple[int, ...]) -> Memory:
    """Return zeroed bytes on the same device as the memory."""
    if isinstance(memory, np.ndarray):
        return np.zeros(shape, dtype=np.uint8)
    return torch.zeros(shape, dtype=torch.uint8, device=memory.device)


def write_numbers(memory: Memory, rows: list[list[int]]) -> None:
    """Write a row of int64 to the start of each line of bytes."""
    content = np.array(rows, dtype=np.int64).view(np.uint8)
    memory[:, : content.shape[1]] = (
        content if isinstance(memory, np.ndarray) else torch.from_numpy(content).to(memory.device)
    )


def read_numbers(memory: Memory, count: int) -> list[list[int]]:
    """Read `count` int64 from the start of each line of bytes."""
    numbers: list[list[int]] = viewed(together(memory[:, : 8 * count]), 8).tolist()
    return numbers
