"""Which collectives a library refuses before it tells anybody: a script that catches the error has not made them."""

from __future__ import annotations

import itertools
import struct
import traceback

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE, Family, Operation
from paceline.guard.shared_memory.record_fields import OFFSETS, RECORD_BYTES

_ARGUMENTS = (TypeError, ValueError, BufferError, KeyError, OverflowError)  # what errors in arguments are told by
_OF_OBJECTS = (
    "torch.all_gather_object", "torch.gather_object", "torch.broadcast_object_list", "torch.scatter_object_list",
)  # fmt: skip
_MAKES_GROUPS = ("torch.new_group", "torch.split_group", "torch.init_process_group")  # they meet in a store as well
_PICKLES = "_object_to_tensor"  # torch's own function, which it calls before it sends anything


def was_refused(error: BaseException, operation: Operation | None) -> bool:
    """Say whether a call that raised was refused: nothing of it has reached another rank.

    torch checks arguments before it hands them to its backend, and mpi4py before it calls MPI; what fails later is told
    by a RuntimeError. Calls for objects are made of several steps, and any error may come between them: torch's are
    refused if the object could not be pickled, of mpi4py's nothing is known.
    """
    if operation is None or operation.family is not Family.COLLECTIVE:
        return False
    if operation.name in _OF_OBJECTS:
        return any(frame.f_code.co_name == _PICKLES for frame, _ in traceback.walk_tb(error.__traceback__))
    is_plain = operation.name[0].isupper() or operation.name.startswith("torch.")
    return is_plain and isinstance(error, _ARGUMENTS) and operation.name not in _MAKES_GROUPS


def withdraw_if_refused(recorder: Recorder, number: int, error: BaseException) -> None:
    """Take back a collective that was refused, by the number of its record."""
    if was_refused(error, _operation_of(recorder, number)):
        withdraw(recorder, number)


def withdraw(recorder: Recorder, number: int) -> None:
    """Take back a collective that failed before it told anybody: the next one has its position.

    One after which another thread has begun the next cannot be taken back.
    """
    memory, begin = recorder.ring.bytes, _begin(number)
    (record,) = struct.unpack_from("<Q", memory, begin)
    (sequence,) = struct.unpack_from("<Q", memory, begin + OFFSETS["sequence"])
    (index,) = struct.unpack_from("<H", memory, begin + OFFSETS["communicator"])
    known = next((known for known in recorder.communicators.values() if known.index == index), None)
    if record != number + 1 or known is None or not sequence or recorder.position(known) != sequence:
        return
    struct.pack_into("<Q", memory, begin + OFFSETS["sequence"], 0)
    recorder.ring.words[known.position_word] = sequence - 1
    known.numbers = itertools.count(sequence)
    if known.board_member is not None:
        known.board_member.withdraw()


def _operation_of(recorder: Recorder, number: int) -> Operation | None:
    """Return the operation of a call, unless a later one has taken its place in the ring."""
    begin = _begin(number)
    (record,) = struct.unpack_from("<Q", recorder.ring.bytes, begin)
    (code,) = struct.unpack_from("<H", recorder.ring.bytes, begin + OFFSETS["operation"])
    return BY_CODE.get(code) if record == number + 1 else None


def _begin(number: int) -> int:
    return layout.RECORDS_AT + (number % layout.NUM_SLOTS) * RECORD_BYTES
