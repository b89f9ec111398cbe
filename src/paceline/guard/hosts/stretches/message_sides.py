"""Messages between hosts, as each side has recorded them: a key that both sides compute, and element type and size.

Only some are told, those whose key ends in enough zeros: so both sides choose the same ones, even if one of them has to
choose fewer. Messages of which neither type nor size is known fit anything, and are not told. Arrays in, arrays out.
"""

from __future__ import annotations

from typing import Any

import numpy

from paceline.guard.hosts.stretches.call_sums import Words, mixed
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import OPERATIONS, Family

_Records = numpy.ndarray[Any, Any]
_SENDS, _RECEIVES = numpy.zeros((2, 1 << 16), dtype=bool)
_EXCHANGES = numpy.zeros(1 << 16, dtype=bool)
for _operation in OPERATIONS:
    _SENDS[_operation.code] = _operation.family in (Family.SEND, Family.EXCHANGE)
    _RECEIVES[_operation.code] = _operation.family in (Family.RECEIVE, Family.EXCHANGE)
    _EXCHANGES[_operation.code] = _operation.family is Family.EXCHANGE
MOST_TOLD = 32  # messages that one rank has sent, or received, and that are told at once
_SIZE_SHIFT = numpy.uint64(56)


def are_messages(records: _Records) -> Any:
    """Say of each record whether it sends or receives a message."""
    return _SENDS[records["operation"]] | _RECEIVES[records["operation"]]


def sides_told(records: _Records, member: int, elsewhere: Any) -> tuple[Words, Words]:
    """Return what a rank has sent and what it has received, as far as it is told: rows of a key and a size.

    Args:
        records: Of messages that are over, on one communicator.
        member: The number of the rank there.
        elsewhere: Of each member, whether it is on another host.
    """
    records = records[records["flags"] & layout.FAILED == 0]
    sent = records[_SENDS[records["operation"]]]
    received = records[_RECEIVES[records["operation"]]]
    is_exchange = _EXCHANGES[received["operation"]]

    def incoming(exchanged: str, plain: str) -> Any:
        return numpy.where(is_exchange, received[exchanged].astype(numpy.int64), received[plain].astype(numpy.int64))

    return (
        _rows(
            numpy.full(len(sent), member), sent["peer"], sent["tag"], sent["message_number"], sent["dtype"],
            sent["num_bytes"], sent["peer"], elsewhere,
        ),
        _rows(
            incoming("source", "peer"), numpy.full(len(received), member), incoming("source_tag", "tag"),
            incoming("source_number", "message_number"), incoming("source_dtype", "dtype"),
            incoming("source_bytes", "num_bytes"), incoming("source", "peer"), elsewhere,
        ),
    )  # fmt: skip


def _rows(
    source: Any, destination: Any, tag: Any, number: Any, dtype: Any, num_bytes: Any, peer: Any, elsewhere: Any
) -> Words:
    is_peer = (peer >= 0) & (peer < len(elsewhere))
    is_told = is_peer & (tag >= 0) & (number > 0) & ((dtype != 0) | (num_bytes >= 0))
    is_told[is_told] &= elsewhere[peer[is_told]]
    rows = numpy.empty((int(is_told.sum()), 2), dtype=numpy.uint64)
    rows[:, 0] = mixed(*(column[is_told] for column in (source, destination, tag, number)))
    rows[:, 1] = _packed(dtype[is_told], num_bytes[is_told])
    return _sampled(rows)


def _packed(dtype: Any, num_bytes: Any) -> Words:
    """Return types and sizes as `pack_size` has them."""
    known = numpy.where(num_bytes < 0, layout.UNKNOWN_BYTES, numpy.minimum(num_bytes, layout.UNKNOWN_BYTES - 1))
    packed = dtype.astype(numpy.uint64) << _SIZE_SHIFT | known.astype(numpy.uint64)
    return numpy.where(num_bytes == 0, numpy.uint64(0), packed)


def _sampled(rows: Words) -> Words:
    """Return the messages whose keys end in the fewest zeros that leave few enough."""
    zeros = 0
    while len(rows) > MOST_TOLD:
        zeros += 1
        rows = rows[rows[:, 0] & numpy.uint64((1 << zeros) - 1) == 0]
    return rows
