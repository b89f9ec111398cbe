"""A receive that waits for one message more than its sender has sent, while that one has gone on to a collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, RankState
from paceline.guard.verdict.waits.waited_for import has_arrived
from paceline.guard.verdict.wording import call_name, name_rank, name_ranks, nth, verb

_SENDING = (Family.SEND, Family.EXCHANGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shortage:
    """A rank that waits for a message, and the sends of the rank that it waits for."""

    receiver: int
    receive: Call
    sender: int
    sends: Sequence[Call]  # to the receiver, all from one line
    next_call: Call  # the collective to which the sender has gone on


def explain_fewer_sends(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain a receive by how often its sender has made the send, and other ranks have made it."""
    for rank, call in sorted(calls.items()):
        shortage = _find_shortage(inspection, calls, rank, call)
        if shortage is not None:
            return [_explain(shortage, _who_made_more(inspection, shortage))]
    return []


def _find_shortage(inspection: Inspection, calls: Mapping[int, Call], rank: int, call: Call) -> _Shortage | None:
    known, state = inspection.communicator(call.communicator), inspection.state(rank)
    if known is None or state is None or call.family is not Family.RECEIVE or ANY in (call.peer, call.tag):
        return None
    sender = known.rank_of(call.peer)
    theirs = inspection.state(sender) if sender is not None else None
    next_call = calls.get(theirs.rank) if theirs is not None else None
    if theirs is None or next_call is None or not next_call.is_collective or not _is_remembered(theirs):
        return None
    if has_arrived(inspection, state, call):
        return None
    sends = _sends(theirs, call, known.member(rank))
    if len({line_of(send) for send in sends}) != 1 or any(send.tag != call.tag for send in sends):
        return None  # tags that count steps, or several lines: which of them is missing is not told
    return _Shortage(receiver=rank, receive=call, sender=theirs.rank, sends=sends, next_call=next_call)


def _is_remembered(state: RankState) -> bool:
    return bool(state.history) and state.history[0].number == 0


def _sends(state: RankState, receive: Call, receiver: int) -> list[Call]:
    """Return what a rank has sent to the receiver on the communicator of a receive, and with its tag if it can be."""
    sent = [
        past
        for past in state.history
        if past.family in _SENDING and past.communicator == receive.communicator and past.peer == receiver
    ]
    return [send for send in sent if send.tag == receive.tag] or sent


def _who_made_more(inspection: Inspection, shortage: _Shortage) -> dict[int, int]:
    """Return the ranks that made the same send more often to a rank of theirs, if the others made it not less often."""
    line, enough = line_of(shortage.sends[0]), len(shortage.sends)
    made: dict[int, dict[int, int]] = {}
    for state in inspection.states():
        for past in state.history if state.rank != shortage.sender else ():
            if line_of(past) == line:
                to_peers = made.setdefault(state.rank, {})
                to_peers[past.peer] = to_peers.get(past.peer, 0) + 1
    most = {rank: max(to_peers.values()) for rank, to_peers in made.items()}
    return {rank: number for rank, number in most.items() if number > enough}


def _explain(shortage: _Shortage, more: Mapping[int, int]) -> Explanation:
    sender, receiver, made = name_rank(shortage.sender), name_rank(shortage.receiver), len(shortage.sends)
    send = f"{call_name(shortage.sends[0])} at {shortage.sends[0].site}"
    receive = f"{call_name(shortage.receive)} at {shortage.receive.site}"
    others = ""
    if more:
        numbers = sorted(set(more.values()))
        often = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
        others = f" ({name_ranks(sorted(more))} {verb(more, 'makes', 'make')} {often} of them)"
    find_out = f"find out why {sender} left out a {send}" if more else f"let {sender} make one more {send}"
    return Explanation(
        ranks=(shortage.sender,) if more else tuple(sorted((shortage.sender, shortage.receiver))),
        summary=f"{sender} made {made} {'call' if made == 1 else 'calls'} of {send} to {receiver}{others} and went on "
        f"to the {call_name(shortage.next_call)} at {shortage.next_call.site}; {receiver} waits in {receive} for the "
        f"{nth(made + 1)} message",
        cause=Cause.RECEIVE_WITHOUT_SEND,
        advice=f"{find_out} before the {call_name(shortage.next_call)}, or let {receiver} do without the {receive}: "
        "every receive needs its send",
    )
