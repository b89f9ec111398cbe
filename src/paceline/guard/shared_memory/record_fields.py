"""The fields of a record, in one table: every form in which a record is written or read follows from it.

A record has two parts. Every call writes the first; of this, `_PER_CALL` changes with each call and `_PER_SITE` is
mostly the same at one site, so a rank packs it once and keeps it. Only messages and waits write the second part:
collectives leave it as it was.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

Fields = tuple[tuple[str, str], ...]  # name, format as `struct` has it

_PER_CALL: Fields = (
    ("number", "Q"),  # position among all calls of the rank, from 1; 0: the slot was never used
    ("entered_ns", "Q"),
    ("left_ns", "Q"),  # 0: it has not returned
    ("sequence", "q"),  # position of a collective among those of its communicator, from 1
    ("at_site", "Q"),  # how many calls the rank has made at this site
)
_PER_SITE: Fields = (
    ("num_bytes", "q"),  # -1: not known
    ("count", "q"),  # elements; -1: not known
    ("members_hash", "q"),  # stands for ranks of a communicator that is being made, or members of an epoch; 0: none
    ("root", "i"),
    ("site", "I"),
    ("communicator", "H"),
    ("operation", "H"),
    ("dtype", "H"),
    ("reduction", "H"),
    ("flags", "H"),
    ("request", "H"),
)
_MESSAGE: Fields = (
    ("peer", "i"),  # where a message goes to, or, if the call only receives, comes from
    ("tag", "i"),
    ("source", "i"),  # of what an exchange receives; so are the other fields named source_*
    ("source_tag", "i"),
    ("num_requests", "i"),  # of a wait; -1: they are not all listed
    ("source_dtype", "I"),
    ("message_number", "q"),  # n-th message of its channel, from 1; 0: not known
    ("source_number", "q"),
    ("source_bytes", "q"),
)
FIELDS = _PER_CALL + _PER_SITE + _MESSAGE
WORD = 8


def _format(fields: Fields) -> str:
    return "<" + "".join(code for _, code in fields)


def _offsets() -> dict[str, int]:
    offsets, end = {}, 0
    for name, code in FIELDS:
        offsets[name] = end
        end += struct.calcsize(f"<{code}")
    return offsets


OFFSETS = _offsets()

COMMON = struct.Struct(_format(_PER_CALL + _PER_SITE))  # the part that every call writes
SITE_PART = struct.Struct(_format(_PER_SITE))
COMMON_WITH_SITE_PART = struct.Struct(f"{_format(_PER_CALL)}{SITE_PART.size}s")  # the same, with that part packed
MESSAGE = struct.Struct(_format(_MESSAGE))
MESSAGE_OFFSET = OFFSETS["peer"]
RECORD_BYTES = -(-struct.calcsize(_format(FIELDS)) // WORD) * WORD


def brief(names: Iterable[str]) -> struct.Struct:
    """Return a struct that reads some fields of a record, in the order of the table, and passes over the others.

    >>> brief(["number", "left_ns"]).format
    '<Q8xQ'
    """
    wanted, codes, gap = set(names), [], 0
    if not wanted <= OFFSETS.keys():
        raise KeyError(f"a record has no field {sorted(wanted - OFFSETS.keys())}")
    for name, code in FIELDS:
        if name in wanted:
            codes.append(f"{gap}x{code}" if gap else code)
            gap = 0
        else:
            gap += struct.calcsize(f"<{code}")
    return struct.Struct("<" + "".join(codes))


def array_fields() -> dict[str, object]:
    """Return the table as `numpy.dtype` takes it. numpy is not imported: ranks must do without."""
    kinds = {"Q": "<u8", "q": "<i8", "I": "<u4", "i": "<i4", "H": "<u2"}
    return {
        "names": [name for name, _ in FIELDS],
        "formats": [kinds[code] for _, code in FIELDS],
        "offsets": [OFFSETS[name] for name, _ in FIELDS],
        "itemsize": RECORD_BYTES,
    }
