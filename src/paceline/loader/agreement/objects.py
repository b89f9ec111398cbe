"""Python objects of all ranks on every rank: for results that are handed on now and then, not for comparing ranks."""

from __future__ import annotations

import pickle
from typing import Any

import torch

from paceline.comm import Comm
from paceline.loader.agreement.first_message import gather_bytes


def gather_objects(comm: Comm, own_object: Any, device: torch.device | str = "cpu") -> list[Any]:
    """Return every rank's object, in the order of ranks, by one collective if they are small, otherwise by two.

    Args:
        comm: The ranks.
        own_object: The object of this rank; it is pickled.
        device: The device to send from, if the carrier cannot carry what is in the host's memory.
    """
    return [pickle.loads(content) for content in gather_bytes(comm, pickle.dumps(own_object, protocol=5), device)]
