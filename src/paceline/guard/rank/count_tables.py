"""Shows a rank's table of counts on the board of pairs, and stops the rank if a pair does not fit."""

from __future__ import annotations

import struct
from collections.abc import Callable

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.board import pack_size
from paceline.guard.shared_memory.pair_board import MAX_PAIR_MEMBERS, UNKNOWN_AMOUNT, PairBoard, Table
from paceline.guard.shared_memory.record_fields import OFFSETS, RECORD_BYTES

TableRead = Callable[..., Table | None]  # gets the communicator and the arguments of the call as the user gave them

_read_sequence = struct.Struct("<q").unpack_from
_SEQUENCE_OFFSET = OFFSETS["sequence"]


def meet_pairs(
    recorder: Recorder, number: int, communicator: Communicator, table: Table | None, *, waits: bool
) -> None:
    """Show the table of a collective that has just been recorded, and in which this thread waits or not.

    Does not return while another member is there that sends or expects another amount.
    """
    if table is None:
        return
    board = communicator.pairs or _open_board(recorder, communicator)
    if board is None:
        return
    # from the record: another thread may have begun the next call of this communicator
    begin = layout.RECORDS_AT + (number & (layout.NUM_SLOTS - 1)) * RECORD_BYTES
    (sequence,) = _read_sequence(recorder.ring.bytes, begin + _SEQUENCE_OFFSET)
    other = board.meet(sequence, table)
    if other >= 0:
        recorder.stop(number, layout.STOP_COLLECTIVE, communicator.ranks[other])
        if waits:  # the judge lets it make the call after all
            recorder.block(number)


def _open_board(recorder: Recorder, communicator: Communicator) -> PairBoard | None:
    num_members = len(communicator.ranks)
    if num_members > MAX_PAIR_MEMBERS or recorder.ring.words[layout.LOST] & layout.LOST_BOARDS:
        return None
    try:
        communicator.pairs = PairBoard(
            recorder.folder / f"pairs.{communicator.identity}", communicator.member, num_members
        )
    except OSError:  # no space
        recorder.ring.lose(layout.LOST_BOARDS)
    return communicator.pairs


def gather_table(communicator: Communicator, root: int, sent: int, expects: list[int] | None) -> Table:
    """Return the table of a call in which everybody sends one amount to the root; only the root expects something."""
    nothing = [0] * len(communicator.ranks)
    sends = list(nothing)
    sends[root] = sent
    return sends, expects or nothing


def scatter_table(communicator: Communicator, root: int, sends: list[int] | None, expected: int) -> Table:
    """Return the table of a call in which the root sends to everybody; `sends` is None elsewhere."""
    nothing = [0] * len(communicator.ranks)
    expects = list(nothing)
    expects[root] = expected
    return sends or nothing, expects


def all_gather_table(sent: int, expects: list[int]) -> Table:
    """Return the table of a call in which a member sends the same to everybody."""
    return [sent] * len(expects), expects


def reduce_scatter_table(sends: list[int], expected: int) -> Table:
    """Return the table of a call in which a member brings a part for everybody, and gets the sum of those for it.

    If every part has the size that its receiver expects, all members have the same table of counts.
    """
    return sends, [expected] * len(sends)


def amount(dtype: int, num_bytes: int) -> int:
    """Return an element type and a number of bytes as a word of a table.

    >>> amount(12, -1) == UNKNOWN_AMOUNT, amount(0, 8) == 8
    (True, True)
    """
    return UNKNOWN_AMOUNT if num_bytes < 0 else pack_size(dtype, num_bytes)
