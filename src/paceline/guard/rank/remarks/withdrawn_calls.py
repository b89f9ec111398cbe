"""Takes back the record of a collective that a library refused before it sent anything: it has not been made.

The rank has not come to that position then, and its next collective takes it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE
from paceline.guard.shared_memory.record_fields import RECORD_BYTES, brief
from paceline.guard.shared_memory.ring import Ring

_CALL = brief(("number", "sequence", "communicator", "operation", "flags"))
_FLAGS = struct.Struct("<H")
_FLAGS_AT = brief(("number", "flags")).size - _FLAGS.size
# how what torch raises begins if it does not take the arguments; what gloo says of a failure begins with its own file
_REFUSED_BY_TORCH = (
    "ProcessGroupGloo::", "invalid ", "Invalid scalar type", "Cannot use ReduceOp.", "Split sizes",
    "Could not run 'c10d::",
)  # fmt: skip


def is_refusal(error: BaseException) -> bool:
    """Say whether a call raised because of its arguments, before it sent anything."""
    if isinstance(error, RuntimeError):
        said = error.args[0] if error.args else ""  # `str` runs the code of an exception that the user has made
        return isinstance(said, str) and said.startswith(_REFUSED_BY_TORCH)
    return isinstance(error, TypeError | ValueError | BufferError)


def withdraw(ring: Ring, communicators: Iterable[Communicator], number: int) -> None:
    """Take a collective back. Nothing happens to one that may have sent something, or is not the last one."""
    begin = layout.RECORDS_AT + (number & (layout.NUM_SLOTS - 1)) * RECORD_BYTES
    known, sequence, index, operation, flags = _CALL.unpack_from(ring.bytes, begin)
    if known != number + 1 or not sequence or not BY_CODE[operation].checks_first:
        return
    made = next((one for one in communicators if one.index == index), None)
    if made is None or ring.words[made.position_word] != sequence or not made.step_back(sequence):
        return  # another thread has begun the next one
    ring.words[made.position_word] = sequence - 1
    _FLAGS.pack_into(ring.bytes, begin + _FLAGS_AT, flags | layout.WITHDRAWN)
    if made.board is not None:
        made.board.withdraw(sequence)
    if made.pairs is not None:
        made.pairs.withdraw(sequence)
