"""How ranks send each other what they compare: only the number of ranks determines the size of the first message.

So ranks that disagree on everything else still take part in the same collective, and all of them learn the same. A
message that does not fit continues in a second one. What is compared travels as numbers or JSON, never as pickles.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from paceline.comm import Comm
from paceline.loader.agreement.must_agree import DisagreementError, MustAgree, check_agreement

_GATHERED_BYTES = 128 * 1024  # the first messages that a rank receives
_SENT_BYTES = 32 * 1024  # the first messages that a rank sends in an exchange
_LEAST_BYTES = 256
_SHORT_BYTES = 8192  # the most for what is short, or sent only now and then
_SIZE = struct.Struct("<q")  # of the whole message, at the end of the first one


def gather_message_bytes(world_size: int) -> int:
    """Return the size of the first message of a rank to all others."""
    return max(_LEAST_BYTES, _GATHERED_BYTES // world_size // 8 * 8)


def short_message_bytes(world_size: int) -> int:
    """Return the size of the first message of a rank to all others, where little is sent at a time."""
    return min(_SHORT_BYTES, gather_message_bytes(world_size))


def exchange_message_bytes(world_size: int) -> int:
    """Return the size of the first message of a rank to one other."""
    return max(_LEAST_BYTES, _SENT_BYTES // world_size // 8 * 8)


@dataclass(slots=True, kw_only=True)
class AgreementHeader:
    """What must agree, as numbers at the start of a first message whose rest is payload.

    It is not frozen, as there is one in each step.

    Comparing numbers is all that a step costs where ranks agree. Only if they do not is the whole value described and
    gathered, to name the value of each rank.

    Attributes:
        fingerprints: A number for each thing, equal where the things are.
        has_problem: Whether this rank cannot continue.
        describe: Returns the whole value.
    """

    fingerprints: tuple[int, ...]
    has_problem: bool = False
    describe: Callable[[], MustAgree]

    def numbers(self) -> list[int]:
        """Return the numbers that travel."""
        return [int(self.has_problem), *self.fingerprints]

    def check(self, comm: Comm, headers: list[list[int]], device: torch.device) -> None:
        """Compare the headers of all ranks; numbers of the caller's own may follow in each.

        Raises:
            DisagreementError: On all ranks, if they differ or one of them has a problem.
        """
        size = 1 + len(self.fingerprints)
        numbers = self.numbers() if not self.has_problem else None
        if all(header[:size] == numbers for header in headers):
            return
        described = gather_json(comm, self.describe().to_json(), device)
        check_agreement([MustAgree.from_json(content) for content in described])
        raise DisagreementError(f"ranks disagree, though all of them describe what they have as {described[0]}")


def gather_json(comm: Comm, content: Any, device: torch.device | str = "cpu") -> list[Any]:
    """Return every rank's JSON value, in the order of ranks; see `gather_bytes`."""
    return [json.loads(message) for message in gather_bytes(comm, json.dumps(content).encode(), device)]


def gather_bytes(comm: Comm, content: bytes, device: torch.device | str = "cpu") -> list[bytes]:
    """Return every rank's bytes, in the order of ranks, by one collective if they are few, otherwise by two.

    Args:
        comm: The ranks.
        content: What this rank sends, of any size.
        device: The device to send from, if the carrier cannot carry what is in the host's memory.
    """
    room = short_message_bytes(comm.world_size) - _SIZE.size
    # a bytearray, since torch warns of memory that cannot be written
    first = np.frombuffer(bytearray(content[:room].ljust(room, b"\0") + _SIZE.pack(len(content))), np.uint8)
    firsts = [row.tobytes() for row in _all_gather(comm, first, device)]
    sizes = [_SIZE.unpack_from(row, room)[0] for row in firsts]
    starts = [row[: min(room, size)] for row, size in zip(firsts, sizes, strict=True)]
    if max(sizes) <= room:
        return starts
    rest = np.zeros(max(sizes) - room, np.uint8)
    rest[: max(0, len(content) - room)] = np.frombuffer(content[room:], np.uint8)
    rests = _all_gather(comm, rest, device)
    return [start + row[: max(0, size - room)].tobytes() for start, row, size in zip(starts, rests, sizes, strict=True)]


def _all_gather(comm: Comm, array: np.ndarray[Any, Any], device: torch.device | str) -> np.ndarray[Any, Any]:
    if comm.carries_host_memory:
        return comm.all_gather(array)
    gathered: np.ndarray[Any, Any] = comm.all_gather(torch.from_numpy(array).to(device)).cpu().numpy()
    return gathered
