"""Which send a receive has taken: by its number where the record tells it, by order where it took any tag."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import BY_CODE, Family
from paceline.report.evidence.call_table import NOBODY, Calls, Ints

_Key = tuple[int, ...]
_KEPT = [code for code, operation in BY_CODE.items() if operation.name.endswith("_init")]  # may run many times


def match_messages(calls: Calls) -> Ints:
    """Return the index of the send for each receive; NOBODY for what is no receive, or whose send is not known."""
    sent_by = np.full(len(calls), NOBODY, np.int64)
    sends = np.flatnonzero(calls.is_of(Family.SEND, Family.EXCHANGE) & (calls.records["message_number"] > 0))
    receives = np.flatnonzero(calls.is_of(Family.RECEIVE))
    exchanges = np.flatnonzero(calls.is_of(Family.EXCHANGE))
    if not len(sends) or not len(receives) + len(exchanges):
        return sent_by
    send_keys = _keys(calls, sends, ("peer", "tag", "message_number"), is_send=True)
    rows = np.concatenate([receives, exchanges])
    receive_keys = _keys(calls, receives, ("peer", "tag", "message_number"), is_send=False)
    receive_keys += _keys(calls, exchanges, ("source", "source_tag", "source_number"), is_send=False)
    by_key = dict(zip(send_keys, sends.tolist(), strict=True))
    for row, key in zip(rows.tolist(), receive_keys, strict=True):
        if key[4] > 0:
            sent_by[row] = by_key.get(key, NOBODY)
    _match_by_order(calls, sent_by, list(zip(send_keys, sends.tolist(), strict=True)), rows, receive_keys)
    return sent_by


def _match_by_order(
    calls: Calls, sent_by: Ints, sends: list[tuple[_Key, int]], rows: Ints, receive_keys: list[_Key]
) -> None:
    """Match receives of any tag: messages between two ranks do not overtake each other.

    Only where nothing else can have taken one of them: all receives of the pair take any tag from this very rank, and
    no call of the two has left the record.
    """
    order = np.argsort(calls.number[rows], kind="stable").tolist()
    taken: dict[_Key, list[int]] = defaultdict(list)
    unclear = {(key[0], key[2]) for key in receive_keys if key[1] == NOBODY}  # from anybody
    unsure: set[_Key] = set()
    for index in order:
        key, row = receive_keys[index], int(rows[index])
        pair = key[:3]
        if key[3] != ANY or calls.records["operation"][row] in _KEPT:
            unsure.add(pair)
        taken[pair].append(row)
    given: dict[_Key, list[int]] = defaultdict(list)
    for key, row in sends:
        given[key[:3]].append(row)
    whole = {rank for rank in calls.ranks if _is_whole(calls, rank)}
    for pair, receives in taken.items():
        if pair in unsure or (pair[0], pair[2]) in unclear or not whole.issuperset(pair[1:]):
            continue
        for receive, send in zip(receives, given[pair], strict=False):
            sent_by[receive] = send


def _is_whole(calls: Calls, rank: int) -> bool:
    numbers = calls.number[calls.of_rank(rank)]
    return bool(len(numbers) == 0 or (numbers[0] == 0 and numbers[-1] == len(numbers) - 1))


def _keys(calls: Calls, rows: Ints, names: tuple[str, str, str], *, is_send: bool) -> list[_Key]:
    """Return communicator, sender, receiver, tag and number of each message."""
    peer, tag, number = names
    mine, other = calls.rank[rows], calls.members(rows, calls.records[peer][rows])
    sender, receiver = (mine, other) if is_send else (other, mine)
    columns = (calls.communicator[rows], sender, receiver, calls.records[tag][rows], calls.records[number][rows])
    return list(zip(*(column.tolist() for column in columns), strict=True))
