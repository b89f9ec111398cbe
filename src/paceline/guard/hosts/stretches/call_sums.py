"""From the records of collectives to the numbers that are summed up: one row for each call. Arrays in, arrays out.

What must be equal on all members goes in, as the rule of mismatches compares it. A size that only some ranks know, such
as that of a Gatherv at its root, must not make the others differ: what is not known is summed up by itself.
"""

from __future__ import annotations

from typing import Any

import numpy

from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import OPERATIONS, UNKNOWN_REDUCTION, Family
from paceline.guard.shared_memory.record_fields import array_fields

RECORD: numpy.dtype[Any] = numpy.dtype(array_fields())  # type: ignore[call-overload]
Words = numpy.ndarray[Any, numpy.dtype[numpy.uint64]]
_Records = numpy.ndarray[Any, Any]
_WORD = numpy.uint64
_FACTORS = [_WORD(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xBF58476D1CE4E5B9)]
_SHIFTS = [_WORD(shift) for shift in (29, 32, 31)]
_IS_COLLECTIVE, _HAS_ROOT = numpy.zeros((2, 1 << 16), dtype=bool)
for _operation in OPERATIONS:
    _IS_COLLECTIVE[_operation.code] = _operation.family is Family.COLLECTIVE
    _HAS_ROOT[_operation.code] = _operation.rooted or _operation.name.startswith("File.")  # a mode is there on a file


def are_collectives(records: _Records) -> Any:
    """Say of each record whether it is a collective that stands at a position: one that was refused does not."""
    return _IS_COLLECTIVE[records["operation"]] & (records["flags"] & layout.WITHDRAWN == 0) & (records["sequence"] > 0)


def call_words(records: _Records) -> Words:
    """Return a row for each collective, of what goes into each of the sums."""
    position, num_bytes, reduction = records["sequence"], numpy.maximum(records["num_bytes"], -1), records["reduction"]
    has_root = _HAS_ROOT[records["operation"]]
    root = numpy.where(has_root, records["root"], layout.NOTHING)
    dtype = numpy.where(num_bytes == 0, 0, records["dtype"])  # nothing at all has no type
    members_hash = records["members_hash"]
    lacking = (
        has_root & (root == layout.NOTHING), reduction == UNKNOWN_REDUCTION, (dtype == 0) & (num_bytes != 0),
        num_bytes < 0, members_hash == 0,
    )  # fmt: skip
    lacks = sum(is_so * (1 << bit) for bit, is_so in enumerate(lacking))
    rows = numpy.empty((len(records), 3), dtype=_WORD)  # (call, sum)
    rows[:, 0] = mixed(position, records["operation"])
    rows[:, 1] = mixed(position, root, reduction, dtype, num_bytes, members_hash)
    rows[:, 2] = mixed(position, lacks)
    return rows


def mixed(*columns: Any) -> Words:
    """Return one word for each row of columns of whole numbers, such that rows that differ have other words."""
    mixed = numpy.zeros(len(columns[0]), dtype=_WORD)
    for column in columns:
        mixed ^= column.astype(numpy.int64, copy=False).view(_WORD)
        for factor, shift in zip(_FACTORS, _SHIFTS, strict=True):
            mixed *= factor
            mixed ^= mixed >> shift
    return mixed
