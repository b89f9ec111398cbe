"""Python objects of all ranks on every rank: for what is said once in a while, not in every step."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import numpy as np
import torch

from paceline.comm import Comm
from paceline.loader.agreement.headers import gather_message_bytes

_FIRST_BYTES = 8192
_SIZE_BYTES = 8


def gather_objects(comm: Comm, mine: Any, device: torch.device | str = "cpu") -> list[Any]:
    """Return every rank's object, in the order of ranks, by one collective if they are small, otherwise by two.

    Args:
        comm: The ranks.
        mine: What this rank says; it is pickled.
        device: By way of which device it goes, if the carrier cannot carry what is in the host's memory.
    """
    content = pickle.dumps(mine, protocol=5)
    room = min(_FIRST_BYTES, gather_message_bytes(comm.world_size)) - _SIZE_BYTES
    head = bytearray(content[:room].ljust(room, b"\0") + struct.pack("<q", len(content)))
    first = np.frombuffer(head, np.uint8)
    told = [row.tobytes() for row in _gather(comm, first, device)]
    sizes = [struct.unpack_from("<q", row, room)[0] for row in told]
    begun = [row[: min(room, size)] for row, size in zip(told, sizes, strict=True)]
    if max(sizes) <= room:
        return [pickle.loads(row) for row in begun]
    more = np.zeros(max(sizes) - room, np.uint8)
    rest = np.frombuffer(content[room:], np.uint8)
    more[: rest.size] = rest
    ends = _gather(comm, more, device)
    return [
        pickle.loads(row + end[: max(0, size - room)].tobytes())
        for row, end, size in zip(begun, ends, sizes, strict=True)
    ]


def _gather(comm: Comm, array: np.ndarray[Any, Any], device: torch.device | str) -> np.ndarray[Any, Any]:
    if comm.carries_host_memory:
        return comm.all_gather(array)
    gathered: np.ndarray[Any, Any] = comm.all_gather(torch.from_numpy(array).to(device)).cpu().numpy()
    return gathered
