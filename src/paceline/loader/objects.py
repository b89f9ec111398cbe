"""Python objects of all ranks on every rank: for what is said once in a while, not in every step."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import torch

from paceline.comm import Comm


def gather_objects(comm: Comm, mine: Any, device: torch.device | str = "cpu") -> list[Any]:
    """Return every rank's object, in the order of ranks, by two collectives.

    Args:
        comm: The ranks.
        mine: What this rank says; it is pickled.
        device: By way of which device it goes, if the carrier cannot carry what is in the host's memory.
    """
    content = np.frombuffer(pickle.dumps(mine, protocol=5), dtype=np.uint8)
    sizes = _gather(comm, np.array([content.size], np.int64), device)[:, 0]
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: content.size] = content
    told = _gather(comm, padded, device)
    return [pickle.loads(row[:size].tobytes()) for row, size in zip(told, sizes.tolist(), strict=True)]


def _gather(comm: Comm, array: np.ndarray[Any, Any], device: torch.device | str) -> np.ndarray[Any, Any]:
    if comm.carries_host_memory:
        return comm.all_gather(array)
    gathered: np.ndarray[Any, Any] = comm.all_gather(torch.from_numpy(array).to(device)).cpu().numpy()
    return gathered
