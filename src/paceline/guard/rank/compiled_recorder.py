"""The recorder with its hot path compiled: the methods that run at every call come from the extension module.

Whether this Python can load that is found out once. The guard also watches environments for which nothing was compiled:
there everything runs in Python, and writes the same records.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.guard.rank.call_recorder import TEXT_RESERVE, Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import board as boards
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import UNKNOWN_REDUCTION
from paceline.guard.shared_memory.record_fields import OFFSETS

IN_PYTHON = "PACELINE_GUARD_IN_PYTHON"  # the variable that keeps the compiled part out, for tests and comparisons
_OLDEST = (3, 11)  # whose limited API it was compiled for; an older Python might load it all the same
_NUMBERS = (
    "NUM_RECORDS", "COMMS_AT", "MAX_COMMS", "RECORDS_AT", "NUM_SLOTS", "RING_BYTES", "BOARD_ROWS", "NONBLOCKING",
    "WITHDRAWN", "STOP_COLLECTIVE", "STOP_MESSAGE", "SENT", "RECEIVED", "THREADS_AT", "THREAD_WORDS", "WAITED_AT",
    "MAX_WAITED", "REQUESTS_AT", "MAX_REQUESTS",
)  # fmt: skip
_BOARD_NUMBERS = (
    "MESSAGE_CELLS", "ROOT_SHIFT", "OPERATION_SHIFT", "WITHDREW_SHIFT", "PLACE_SHIFT", "MOST_COLUMNS", "NUM_TAKEN",
    "TAKEN_AT",
)  # fmt: skip


def expected_layout() -> dict[str, int]:
    """Return where things are in shared memory, under the names that the compiled part has for them."""
    numbers = {name: getattr(layout, name) for name in _NUMBERS}
    numbers |= {name: getattr(boards, name) for name in _BOARD_NUMBERS} | {"UNKNOWN_REDUCTION": UNKNOWN_REDUCTION}
    return numbers | {f"record.{name}": offset for name, offset in OFFSETS.items()}


def _load() -> Any:
    """Return the extension module; None if this Python has none, or one that was compiled for other records."""
    if os.environ.get(IN_PYTHON) or sys.version_info < _OLDEST or sys.implementation.name != "cpython":
        return None
    try:
        from paceline.compiled import extension
    except ImportError:
        return None
    return extension if getattr(extension, "RING_LAYOUT", None) == expected_layout() else None


COMPILED: Any = _load()


def _compiled_class(extension: Any) -> type[Recorder]:
    class CompiledRecorder(extension.RecordWriter, Recorder):  # type: ignore[misc]
        """A recorder whose begin_collective, begin_message, block, unblock and leave are those of RecordWriter."""

        memory_table = extension.MemoryTable

        def __init__(self, folder: Path, name: str, *, rank: int, world_size: int, carrier: str = "mpi") -> None:
            Recorder.__init__(self, folder, name, rank=rank, world_size=world_size, carrier=carrier)
            self.open_ring(self.ring.bytes, self.threads.slots, self.threads.take_free_slot, self.sites)
            self.open_requests(
                self.requests, self.requests.free_numbers, self.remarks, self.remarks.dropped, self.buffers,
                self.buffers.gone, self.buffers.on_writing, self.buffers.table,
            )  # fmt: skip

        def communicator(
            self, identity: str, name: str, ranks: Sequence[int], member: int, *, reserve: int = TEXT_RESERVE
        ) -> Communicator | None:
            made = Recorder.communicator(self, identity, name, ranks, member, reserve=reserve)
            if made is not None and made.board_member is None:
                board = () if made.board is None else (made.board.words, made.board.column)
                made.board_member = extension.BoardMember(made.index, made.member, len(made.ranks), *board)
            return made

    return CompiledRecorder


# what records the calls of this process
RecorderInUse: type[Recorder] = Recorder if COMPILED is None else _compiled_class(COMPILED)
