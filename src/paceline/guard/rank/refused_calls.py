"""Which collectives a library refuses before it tells anybody: a script that catches the error has not made them."""

from __future__ import annotations

import traceback

from paceline.guard.shared_memory.operations import Family, Operation

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
