"""How objects travel between ranks: this is the one place that decides it.

What Paceline itself tells other ranks (problems, counts, states, figures) is JSON. Only values of the user, which may
be anything, are pickled here, and only to go over the carrier of the job: a pickle is a program, and whoever is at the
other end runs as this rank does. No file is read this way.
"""

from __future__ import annotations

import json
import pickle
import struct
from typing import Any

import torch

from paceline.comm import Comm
from paceline.loader.agreement.first_message import gather_bytes, gather_json
from paceline.loader.agreement.problem import Problem

_SIZE = struct.Struct("<q")  # of the JSON


def gather_problems(comm: Comm, problem: Problem | None, device: torch.device | str = "cpu") -> list[Problem | None]:
    """Return every rank's problem, in the order of ranks; None for ranks that have none."""
    return [Problem.from_json(each) for each in gather_json(comm, problem and problem.to_json(), device)]


def gather_user_value(comm: Comm, value: bytes, problem: Problem | None, rank: int) -> tuple[bytes, Problem | None]:
    """Return what one rank has packed, or its problem. All ranks call this."""
    head = json.dumps(problem and problem.to_json()).encode()
    message = gather_bytes(comm, _SIZE.pack(len(head)) + head + value)[rank]
    end = _SIZE.size + _SIZE.unpack_from(message)[0]
    return message[end:], Problem.from_json(json.loads(message[_SIZE.size : end]))


def pack_user_value(value: Any) -> bytes:
    """Return a value of the user in a form that travels over the carrier of the job."""
    return pickle.dumps(value, protocol=5)


def unpack_user_value(content: bytes) -> Any:
    """Return what a rank of this job has packed."""
    return pickle.loads(content)
