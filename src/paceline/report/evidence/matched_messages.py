"""Which send a receive has taken: by its number where the record has it, by order where it took any tag."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import BY_CODE, Family
from paceline.report.evidence.call_table import NO_CALL, NO_RANK, Calls, Ints

_Key = tuple[int, ...]
_PERSISTENT = [code for code, operation in BY_CODE.items() if operation.name.endswith("_init")]  # may run many times


def match_messages(calls: Calls) -> Ints:
    """Return the index of the send for each receive; NO_CALL where it is not a receive, or its send is not known."""
    sent_by = np.full(len(calls), NO_CALL, np.int64)
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
            sent_by[row] = by_key.get(key, NO_CALL)
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
    unclear = {(key[0], key[2]) for key in receive_keys if key[1] == NO_RANK}  # from anybody
    unsure: set[_Key] = set()
    for index in order:
        key, row = receive_keys[index], int(rows[index])
        pair = key[:3]
        if key[3] != ANY or calls.records["operation"][row] in _PERSISTENT:
            unsure.add(pair)
        taken[pair].append(row)
    sent: dict[_Key, list[int]] = defaultdict(list)
    for key, row in sends:
        sent[key[:3]].append(row)
    whole = {rank for rank in calls.ranks if _is_whole(calls, rank)}
    for pair, receives in taken.items():
        if pair in unsure or (pair[0], pair[2]) in unclear or not whole.issuperset(pair[1:]):
            continue
        for receive, send in zip(receives, sent[pair], strict=False):
            sent_by[receive] = send


def _is_whole(calls: Calls, rank: int) -> bool:
    numbers = calls.number[calls.of_rank(rank)]
    return bool(len(numbers) == 0 or (numbers[0] == 1 and numbers[-1] == len(numbers)))


def _keys(calls: Calls, rows: Ints, names: tuple[str, str, str], *, is_send: bool) -> list[_Key]:
    """Return communicator, sender, receiver, tag and number of each message."""
    peer, tag, number = names
    own, other = calls.rank[rows], calls.members(rows, calls.records[peer][rows])
    sender, receiver = (own, other) if is_send else (other, own)
    columns = (calls.communicator[rows], sender, receiver, calls.records[tag][rows], calls.records[number][rows])
    return list(zip(*(column.tolist() for column in columns), strict=True))
