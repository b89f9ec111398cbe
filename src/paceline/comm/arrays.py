"""numpy arrays and torch tensors under one roof, without importing torch.

Memory is shared wherever it can be: a CPU tensor and its array are the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import InputError

_REDUCIBLE = ("int32", "int64", "float32", "float64")


def is_tensor(array: Any) -> bool:
    """Whether it is a torch tensor; if torch is not imported, nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def as_numpy(array: Any) -> NDArray[Any]:
    """Return a contiguous numpy array of the same bytes; a dtype that numpy lacks comes as whole numbers."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array).reshape(array.shape)  # keeps a scalar a scalar
    if not is_tensor(array):
        raise InputError(f"expected a numpy array or a torch tensor, got {type(array).__name__}")
    if array.device.type != "cpu":
        raise InputError(f"this carrier moves CPU tensors only, got one on {array.device}")
    tensor = array.detach().resolve_conj().resolve_neg().contiguous()
    torch = sys.modules["torch"]
    if tensor.dtype in (torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64):
        return np.asarray(tensor.numpy())
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(tensor.element_size())
    return np.asarray((tensor if whole is None else tensor.view(whole)).numpy())


def like(result: NDArray[Any], original: Any) -> Any:
    """Return the result as the kind of array that the original is."""
    if isinstance(original, np.ndarray):
        return result
    torch = sys.modules["torch"]
    tensor = torch.from_numpy(result)
    return tensor.view(original.dtype) if tensor.dtype != original.dtype else tensor


def check_counts(array: Any, send_counts: Sequence[int], receive_counts: Sequence[int], world_size: int) -> None:
    """Refuse counts that cannot be: every carrier would fail in a way of its own."""
    for name, counts in (("send_counts", send_counts), ("receive_counts", receive_counts)):
        if len(counts) != world_size or min(counts) < 0:
            raise InputError(f"{name} must be {world_size} counts of at least 0, got {list(counts)}")
    if not array.shape or sum(send_counts) != array.shape[0]:
        raise InputError(f"send_counts {list(send_counts)} must add up to the rows of an array of {tuple(array.shape)}")


def check_root(root: int, world_size: int) -> None:
    """Refuse a root that does not exist."""
    if not 0 <= root < world_size:
        raise InputError(f"root must be a rank from 0 to {world_size - 1}, got {root}")


def check_reducible(array: Any) -> None:
    """Refuse dtypes that not every carrier can add up, on every carrier alike."""
    name = str(array.dtype).removeprefix("torch.")
    if name not in _REDUCIBLE:
        raise InputError(f"all_reduce takes {', '.join(_REDUCIBLE)}, got {name}: convert it first")
