"""Watches what reaches for the memory of mpi4py's windows: Put, Get, and updates.

Only what is certain is told: of datatypes with gaps, of memory that is attached later and of a target whose part is not
known nothing is noted. Rget is left out too, since waiting for its request completes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.mpi.mpi_module import MpiWatch
from paceline.guard.rank.mpi.replaced_methods import named_like, own_method
from paceline.guard.rank.mpi.windows_and_files.window_logs import WindowLogs
from paceline.guard.rank.remarks.window_log import WindowLog
from paceline.guard.rank.watched_calls import CALLED_BY_HELPER
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.access_board import READS, UPDATES, WRITES, Access
from paceline.guard.shared_memory.operations import BY_NAME, REDUCTION_CODES, WINDOW_ACCESSES

_UNREADABLE = (TypeError, ValueError, IndexError, BufferError, AttributeError, ArithmeticError)
_NO_OPERATOR = REDUCTION_CODES["none"]


class _Arguments(NamedTuple):
    """What the arguments of an access say, as the user gave them."""

    target: Any
    place: Any  # where at the target: a displacement, or a list of it, a count and a type
    moves: Any  # the buffer whose size says how much is moved
    reads: Any = None  # memory of this rank that it reads
    writes: Any = None  # and that it writes
    reduction: int = _NO_OPERATOR


class _AccessReader:
    """Reads the arguments of accesses, under the names that mpi4py has for them."""

    def __init__(self, watch: MpiWatch) -> None:
        self._reduction, self._no_op = watch.constants.reduction, REDUCTION_CODES["NO_OP"]

    def put(self, origin: Any, target_rank: Any, target: Any = None) -> _Arguments:
        return _Arguments(target_rank, target, origin, reads=origin)

    def get(self, origin: Any, target_rank: Any, target: Any = None) -> _Arguments:
        return _Arguments(target_rank, target, origin, writes=origin)

    def accumulate(self, origin: Any, target_rank: Any, target: Any = None, op: Any = None) -> _Arguments:
        return _Arguments(target_rank, target, origin, reads=origin, reduction=self._reduction(op))

    def get_accumulate(
        self, origin: Any, result: Any, target_rank: Any, target: Any = None, op: Any = None
    ) -> _Arguments:
        code = self._reduction(op)
        reads = None if code == self._no_op else origin  # it may be anything then
        # what the target does not say of its size is that of the origin
        return _Arguments(target_rank, target, origin, reads=reads, writes=result, reduction=code)

    def fetch_and_op(
        self, origin: Any, result: Any, target_rank: Any, target_disp: Any = 0, op: Any = None
    ) -> _Arguments:
        found = self.get_accumulate(origin, result, target_rank, target_disp, op)
        return found._replace(moves=result)

    def compare_and_swap(
        self, origin: Any, compare: Any, result: Any, target_rank: Any, target_disp: Any = 0
    ) -> _Arguments:
        return _Arguments(target_rank, target_disp, result, reads=origin, writes=result)


_READERS: dict[str, tuple[Callable[..., _Arguments], int]] = {
    "Put": (_AccessReader.put, WRITES),
    "Get": (_AccessReader.get, READS),
    "Accumulate": (_AccessReader.accumulate, UPDATES),
    "Get_accumulate": (_AccessReader.get_accumulate, UPDATES),
    "Fetch_and_op": (_AccessReader.fetch_and_op, UPDATES),
    "Compare_and_swap": (_AccessReader.compare_and_swap, UPDATES),
    "Rput": (_AccessReader.put, WRITES),
    "Raccumulate": (_AccessReader.accumulate, UPDATES),
    "Rget_accumulate": (_AccessReader.get_accumulate, UPDATES),
}
_BY_REQUEST = ("Rput", "Raccumulate", "Rget_accumulate")


def watched_accesses(watch: MpiWatch, logs: WindowLogs) -> dict[str, Any]:
    """Return the watched forms of those methods of windows that reach for memory."""
    reader, members = _AccessReader(watch), {}
    for operation in WINDOW_ACCESSES:
        name = operation.removeprefix("Win.")
        if (function := own_method(watch.mpi.Win, name)) is not None:
            members[name] = _watched_access(function, operation, watch, logs, reader)
    return members


def _watched_access(function: Any, operation: str, watch: MpiWatch, logs: WindowLogs, reader: _AccessReader) -> Any:
    name = operation.removeprefix("Win.")
    read, does = _READERS[name]
    code, find = BY_NAME[operation].code, logs.find

    def read_access(log: WindowLog, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[_Arguments, Access] | None:
        try:
            arguments = read(reader, *args, **named)
            access = _access(watch, log, arguments, does)
        except _UNREADABLE:  # arguments that are not plain, or wrong: mpi4py says so
            return None
        return None if access is None else (arguments, access)

    def note(recorder: Recorder, log: WindowLog, arguments: _Arguments, access: Access, frame: FrameType) -> None:
        logs.settle()
        log.add(
            access._replace(site=recorder.remarks.site_of(frame), operation=code), _memory(watch, arguments),
            fetches=arguments.writes is not None, has_request=name in _BY_REQUEST,
        )  # fmt: skip

    def call(self: Any, *args: Any, **named: Any) -> Any:
        log, recorder = find(self), SESSION.recorder
        board = log.board if log is not None else None  # another thread may take it away
        if log is None or board is None or recorder is None:
            return function(self, *args, **named)
        found = logs.unless_it_fails(log, read_access, log, args, named)
        if found is not None and found[1].end > board.part(found[1].target)[0]:
            _stop_beyond(recorder, log, code, found[1], board.part(found[1].target)[0])
            found = None
        value = function(self, *args, **named)
        if found is not None:  # the call was made: whatever is wrong with our notes of it is not the script's affair
            logs.unless_it_fails(log, note, recorder, log, *found, sys._getframe(1))
        return value

    return named_like(call, function)


def _stop_beyond(recorder: Recorder, log: WindowLog, code: int, access: Access, room: int) -> None:
    """Stop before an access that reaches beyond the end of its target's part: it would reach into other memory."""
    number = recorder.begin_message(
        log.index, code, peer=access.target, dtype=access.dtype, num_bytes=access.end,
        receives=(access.target, 0, access.dtype, room, 0), depth=CALLED_BY_HELPER,
    )  # fmt: skip
    recorder.stop(number, layout.STOP_ARGUMENT, 0)
    recorder.leave(number)


def _access(watch: MpiWatch, log: WindowLog, arguments: _Arguments, does: int) -> Access | None:
    """Return which bytes of which member an access reaches for; None if that is not certain."""
    target = watch.constants.peer(arguments.target)
    if not 0 <= target < log.num_members or log.board is None:
        return None
    _, unit = log.board.part(target)
    place = arguments.place
    displacement, *rest = place if isinstance(place, list | tuple) else [place or 0]
    dtype, moved, count = watch.buffers.size(arguments.moves)
    if _has_gaps(watch, arguments.moves) or unit <= 0 or moved <= 0 or count <= 0:
        return None
    if len(rest) > 1:
        if not isinstance(rest[1], watch.mpi.Datatype) or not rest[1].is_predefined:
            return None
        dtype, item = watch.buffers.code_and_bytes(rest[1])
        moved = int(rest[0]) * item
    elif rest:
        moved = int(rest[0]) * (moved // count)
    begin = int(displacement) * unit
    if begin < 0 or moved <= 0:
        return None
    return Access(
        origin=log.member, target=target, begin=begin, end=begin + moved, does=does, reduction=arguments.reduction,
        dtype=dtype,
    )  # fmt: skip


def _has_gaps(watch: MpiWatch, spec: Any) -> bool:
    """Say whether a buffer argument may have gaps: then so may what it reaches for."""
    return isinstance(spec, list | tuple) and any(
        isinstance(part, watch.mpi.Datatype) and not part.is_predefined for part in spec[1:]
    )


def _memory(watch: MpiWatch, arguments: _Arguments) -> tuple[Any, ...]:
    """Return the memory of this rank that an access uses, as far as that is known."""
    found = []
    for spec, writes in ((arguments.reads, False), (arguments.writes, True)):
        if spec is not None and not _has_gaps(watch, spec):
            found.append(watch.memory.of(spec, watch.buffers.size(spec), writes=writes))
    return tuple(memory for memory in found if memory is not None)
