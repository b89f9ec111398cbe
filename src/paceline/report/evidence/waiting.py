"""Who waited for whom: for each call how long it waited for another rank, and for which.

A collective waits until the last member that it needs has come, a receive until its message is sent, a send that does
not return at once until it is received. What a call takes beyond that is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paceline.guard.shared_memory.layout import NONBLOCKING
from paceline.guard.shared_memory.operations import Family, Needs
from paceline.report.evidence.call_table import NO_CALL, NO_RANK, Calls, Flags, Ints, by_code
from paceline.report.evidence.matched_messages import match_messages

_NEEDS = list(Needs)
_NEEDS_OF_CODE = by_code(lambda operation: _NEEDS.index(operation.needs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """How long each call waited, in nanoseconds; for which rank; and which other call it was matched with.

    Attributes:
        waited: One for each call.
        for_rank: One for each call; NO_RANK where it did not wait, or it is not known for whom.
        last_of_match: Index of the call that completed a collective, for each of its calls; otherwise NO_CALL.
        sent_by: For a receive, index of the send; otherwise NO_CALL.
    """

    waited: Ints
    for_rank: Ints
    last_of_match: Ints
    sent_by: Ints


def find_waits(calls: Calls, out_of_line: Sequence[int] = ()) -> Waits:
    """Match the calls of all ranks, and see who came last.

    Args:
        calls: The calls of all ranks.
        out_of_line: The ranks of the finding: for them the others wait at the end, if they wait for anybody.
    """
    size = len(calls)
    waits = Waits(
        waited=np.zeros(size, np.int64),
        for_rank=np.full(size, NO_RANK, np.int64),
        last_of_match=np.full(size, NO_CALL, np.int64),
        sent_by=np.full(size, NO_CALL, np.int64),
    )
    if size:
        _collectives(calls, waits, out_of_line)
        _messages(calls, waits)
        whole = calls.is_of(Family.WAIT, Family.PROBE)
        waits.waited[whole] = (calls.left - calls.entered)[whole]
        posted = (calls.records["flags"] & NONBLOCKING) > 0
        waits.waited[posted] = 0
        waits.for_rank[(waits.waited == 0)] = NO_RANK
    return waits


def _collectives(calls: Calls, waits: Waits, out_of_line: Sequence[int]) -> None:
    known = np.flatnonzero(calls.is_of(Family.COLLECTIVE) & (calls.communicator >= 0) & (calls.records["sequence"] > 0))
    if not len(known):
        return
    order = np.lexsort((calls.entered[known], calls.records["sequence"][known], calls.communicator[known]))
    rows = known[order]  # of one sequence one after the other, the last to come at the end
    comm, sequence = calls.communicator[rows], calls.records["sequence"][rows]
    starts = np.flatnonzero(np.concatenate([[True], (comm[1:] != comm[:-1]) | (sequence[1:] != sequence[:-1])]))
    lengths = np.diff(np.concatenate([starts, [len(rows)]]))
    match = np.repeat(np.arange(len(starts)), lengths)  # rows with one number belong to one collective
    last = rows[starts + lengths - 1][match]
    waits.last_of_match[rows] = last
    needs = _NEEDS_OF_CODE[calls.operation[rows]]
    is_root = calls.members(rows, calls.records["root"][rows]) == calls.rank[rows]
    from_root, to_root = needs == _NEEDS.index(Needs.FROM_ROOT), needs == _NEEDS.index(Needs.TO_ROOT)
    awaited = np.where(from_root, _root_calls(rows, match, is_root & from_root, otherwise=last), last)
    until = np.where(to_root & ~is_root, 0, calls.entered[awaited])
    waits.waited[rows] = np.maximum(0, np.minimum(until, calls.left[rows]) - calls.entered[rows])
    whom = calls.rank[awaited]
    waits.for_rank[rows] = np.where(whom == calls.rank[rows], NO_RANK, whom)
    _wait_to_the_end(calls, waits, rows[calls.is_open[rows]], out_of_line)


def _root_calls(rows: Ints, match: Ints, is_root: Flags, *, otherwise: Ints) -> Ints:
    """Return for each call that of the root of its collective, or the other one if the root never came."""
    root_of_match = np.full(int(match[-1]) + 1, NO_CALL, np.int64)
    root_of_match[match[is_root]] = rows[is_root]
    roots = root_of_match[match]
    return np.where(roots == NO_CALL, otherwise, roots)


def _wait_to_the_end(calls: Calls, waits: Waits, rows: Ints, out_of_line: Sequence[int]) -> None:
    """A call that never returned waits until the end, for a member that has not come."""
    keys = list(zip(calls.communicator[rows].tolist(), calls.records["sequence"][rows].tolist(), strict=True))
    missing = {key: _missing(calls, *key) for key in set(keys)}
    waits.waited[rows] = calls.left[rows] - calls.entered[rows]
    for row, key in zip(rows.tolist(), keys, strict=True):
        late = missing[key] or [rank for rank in out_of_line if calls.rank[row] not in out_of_line]
        named = [rank for rank in late if rank in out_of_line] or late
        waits.for_rank[row] = named[0] if named else NO_RANK


def _missing(calls: Calls, communicator: int, sequence: int) -> list[int]:
    """Return the members that never came to a call."""
    there = (calls.communicator == communicator) & (calls.records["sequence"] == sequence)
    came = set(calls.rank[there & calls.is_of(Family.COLLECTIVE)].tolist())
    return [rank for rank in calls.communicators[communicator].ranks if rank not in came]


def _messages(calls: Calls, waits: Waits) -> None:
    """A receive waits until its message is sent; a send that does not return at once until it is received."""
    waits.sent_by[:] = match_messages(calls)
    received = np.flatnonzero(waits.sent_by != NO_CALL)
    sent = waits.sent_by[received]
    for rows, others in ((received, sent), (sent, received)):
        waited = np.minimum(calls.entered[others], calls.left[rows]) - calls.entered[rows]
        longer = waited > waits.waited[rows]
        waits.waited[rows[longer]] = waited[longer]
        waits.for_rank[rows[longer]] = calls.rank[others[longer]]
    for family, peer in ((Family.SEND, "peer"), (Family.RECEIVE, "peer"), (Family.EXCHANGE, "source")):
        rows = np.flatnonzero(calls.is_open & calls.is_of(family) & (waits.waited == 0))
        waits.waited[rows] = calls.left[rows] - calls.entered[rows]
        waits.for_rank[rows] = calls.members(rows, calls.records[peer][rows])
