"""Compares what came out of collectives that give all members the same. Only with `--results`.

A member writes a checksum after the call and looks at those that others have written. The first difference on a
communicator is told, by everybody who sees it: the last one to write sees all.
"""

from __future__ import annotations

import binascii
from typing import Any

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE
from paceline.guard.shared_memory.record_fields import RECORD_BYTES, brief
from paceline.guard.shared_memory.result_board import ResultBoard

RESULTS_DIFFER = "results-differ"
_MAX_TOLD = 128  # members whose checksums are told
_CALL = brief(("number", "sequence", "site", "operation"))


def checksum_of(data: Any) -> int:
    """Return a checksum of bytes, as any kind of flat buffer."""
    return binascii.crc32(data)


class ComparedResults:
    """The results of one rank."""

    def __init__(self) -> None:
        self._boards: dict[str, ResultBoard | None] = {}  # by identity of the communicator
        self._told: set[str] = set()

    def compare(self, recorder: Recorder, number: int, communicator: Communicator, checksum: int) -> None:
        """Compare what came out of the call of this record with what came out of it on other members."""
        begin = layout.RECORDS_AT + (number & (layout.NUM_SLOTS - 1)) * RECORD_BYTES
        found, sequence, site, operation = _CALL.unpack_from(recorder.ring.bytes, begin)
        board = self._board(recorder, communicator)
        if found != number + 1 or board is None:
            return
        sums = board.meet(sequence, checksum)
        if len(set(sums.values())) > 1 and communicator.identity not in self._told:
            self._told.add(communicator.identity)
            # what differs first: it must not be cut off
            listed = sorted(sums.items(), key=lambda item: (item[1] == checksum, item[0]))[: _MAX_TOLD - 1]
            listed.append((communicator.member, checksum))
            name = BY_CODE[operation].name if operation in BY_CODE else ""
            recorder.remarks.note(
                RESULTS_DIFFER, site, name, on=communicator.identity, call=sequence, sums=sorted(set(listed))
            )

    def _board(self, recorder: Recorder, communicator: Communicator) -> ResultBoard | None:
        identity = communicator.identity
        if identity not in self._boards:
            num_members = len(communicator.ranks)
            try:
                path = recorder.folder / f"results.{identity}"
                self._boards[identity] = (
                    ResultBoard(path, communicator.member, num_members) if num_members > 1 else None
                )
            except OSError:  # no space: nothing is compared
                self._boards[identity] = None
        return self._boards[identity]
