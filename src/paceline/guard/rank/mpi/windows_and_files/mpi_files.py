"""Watches the files of mpi4py: opening one is a collective of its communicator, then it is like one of its own.

Only calls that all members must make are recorded. How much each of them reads or writes is its own affair.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.posted_request import PostedRequest
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER, CALLED_BY_WRAPPER, make_blocked_call, post_request
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.layout import NOTHING
from paceline.guard.shared_memory.operations import BY_NAME, FILE_COLLECTIVES, FILE_POSTINGS

_FileArguments = tuple[int, int]  # mode (NOTHING: it has none) and size (-1: it has none), which must agree
_ReadFileArguments = Callable[..., _FileArguments]


def watched_files(watch: MpiWatch) -> dict[str, Any]:
    """Return the watched forms of those methods of files that all members must call."""
    kind = watch.mpi.File
    members: dict[str, Any] = {}
    if (function := own_method(kind, "Open")) is not None:
        members["Open"] = classmethod(_watched_open(function, watch))
    if (function := own_method(kind, "Close")) is not None:  # `free` calls it
        members["Close"] = watch.files.watched_end(function, "File.Close")
    for operation in (*FILE_COLLECTIVES, *FILE_POSTINGS):
        name = operation.removeprefix("File.")
        if name != "Close" and (function := own_method(kind, name)) is not None:
            watched = _watched_posting if operation in FILE_POSTINGS else _watched_collective
            members[name] = watched(function, operation, watch)
    return members


def _watched_open(function: Any, watch: MpiWatch) -> Any:
    code, read_only = BY_NAME["File.Open"].code, watch.mpi.MODE_RDONLY
    followed, handle_of = watch.communicators.get, watch.handle_of

    def call(cls: Any, comm: Any, filename: Any, amode: Any = read_only, *args: Any, **named: Any) -> Any:
        values, recorder = (cls, comm, filename, amode, *args), SESSION.recorder
        try:
            communicator = followed(handle_of(comm))
            label = f"File {os.path.basename(os.fsdecode(filename))}"
            mode = int(amode)
        except TypeError:  # wrong arguments: mpi4py says so better
            return function(*values, **named)
        if communicator is None or recorder is None:
            return function(*values, **named)
        number = recorder.begin_collective(communicator, code, mode, depth=CALLED_BY_HELPER)
        sequence = recorder.position(communicator)  # before the call: another thread may make the next one
        made = make_blocked_call(recorder, number, function, values, named)
        watch.files.follow(made, communicator, sequence, label)
        return made

    return named_like(call, function)


def _watched_collective(function: Any, operation: str, watch: MpiWatch) -> Any:
    code, find, read = BY_NAME[operation].code, watch.files.find, _READERS.get(operation, _nothing)

    def call(*args: Any, **named: Any) -> Any:
        known, recorder = find(args[0]), SESSION.recorder
        if known is None or recorder is None:
            return function(*args, **named)
        try:
            mode, size = read(*args, **named)
        except TypeError:
            return function(*args, **named)
        number = recorder.begin_collective(known, code, mode, num_bytes=size, depth=CALLED_BY_WRAPPER)
        return make_blocked_call(recorder, number, function, args, named)

    return named_like(call, function)


def _watched_posting(function: Any, operation: str, watch: MpiWatch) -> Any:
    code, find, follow_request = BY_NAME[operation].code, watch.files.find, watch.requests.follow

    def call(*args: Any, **named: Any) -> Any:
        known, recorder = find(args[0]), SESSION.recorder
        if known is None or recorder is None:
            return function(*args, **named)
        request = recorder.requests.take()
        number = recorder.begin_collective(
            known, code, flags=layout.NONBLOCKING, request=request, depth=CALLED_BY_WRAPPER
        )  # fmt: skip
        request_made = post_request(recorder, number, request, function, args, named, active=True)
        return follow_request(request_made, PostedRequest(recorder, request, number))

    return named_like(call, function)


# What must be equal on all members.


def _nothing(*args: Any, **named: Any) -> _FileArguments:
    return NOTHING, -1


def _size(file: Any, size: Any) -> _FileArguments:
    return NOTHING, max(-1, int(size))


def _flag(file: Any, flag: Any) -> _FileArguments:
    return int(bool(flag)), -1


_READERS: dict[str, _ReadFileArguments] = {
    "File.Set_size": _size,
    "File.Preallocate": _size,
    "File.Set_atomicity": _flag,
}
