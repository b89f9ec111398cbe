"""A message that does not go into its receive, because ranks send and receive several of them in different orders.

Messages between two ranks with one tag meet in the order in which they were sent and in which receives were posted.
"""

from __future__ import annotations

from collections.abc import Iterator

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.wording import call_name, name_rank, size_text

_SENDING = (Family.SEND, Family.EXCHANGE)
_RECEIVING = (Family.RECEIVE, Family.EXCHANGE)


def explain_message_order(
    inspection: Inspection, sent: Call, received: Call, *, sender: int, receiver: int
) -> tuple[list[Explanation], bool]:
    """Explain two sides that do not fit by the next messages of the same two ranks, which fit them.

    The receive must have just the size and the type of another send, or the send those of another receive.

    Returns:
        What fits, and whether nothing else does: sends of one line may also be of various sizes.
    """
    sends = list(_sends(inspection, sent, sender, received))
    receives = list(_receives(inspection, received, receiver, sent))
    for other_send in sends:
        for other_receive in receives:
            if _are_crossed(sent, received, other_send, other_receive):
                crossed = _explain_crossed(sent, received, other_send, other_receive, sender, receiver)
                is_one_round = _are_together(inspection, sender, sent, other_send)
                is_one_round = is_one_round and _are_together(inspection, receiver, received, other_receive)
                left_out = _explain_left_out(received, other_receive, sender, receiver)
                return [crossed] if is_one_round else [crossed, left_out], True
    later = next((call for call in sends if call.number > sent.number), None)
    if later is not None and later.site != sent.site and _fits(later, received):
        return [_explain_sends(sent, received, later, sender, receiver)], True
    if later is not None and later.request and _is_alike(later, received):
        return [_explain_sends(sent, received, later, sender, receiver)], False
    later = next((call for call in receives if call.number > received.number), None)
    if later is not None and _is_alike(sent, later) and received.request:
        return [_explain_receives(sent, received, later, sender, receiver)], False
    return [], False


def _are_crossed(sent: Call, received: Call, other_send: Call, other_receive: Call) -> bool:
    """Say whether of two messages each has the size of the receive that the other comes to, and not of its own."""
    number, other = other_send.message_number, other_receive.incoming.number
    is_neighbour = number and number == other and abs(number - sent.message_number) == 1
    is_alike = _is_alike(other_send, received) and _is_alike(sent, other_receive)
    return bool(is_neighbour and is_alike and sent.tag == other_send.tag)


def _are_together(inspection: Inspection, rank: int, one: Call, other: Call) -> bool:
    """Say whether a rank has started two calls without a wait in between: then they are of one round."""
    state = inspection.state(rank)
    first, last = sorted((one.number, other.number))
    between = [call for call in (state.history if state is not None else ()) if first < call.number < last]
    return bool(one.request and other.request) and all(call.family is not Family.WAIT for call in between)


def _sends(inspection: Inspection, sent: Call, sender: int, received: Call) -> Iterator[Call]:
    """Return the other messages of a rank that a receive could have taken."""
    state = inspection.state(sender)
    for call in state.history if state is not None else ():
        is_like = call.family in _SENDING and call.communicator == sent.communicator and call.peer == sent.peer
        if is_like and call.number != sent.number and received.incoming.tag in (ANY, call.tag):
            yield call


def _receives(inspection: Inspection, received: Call, receiver: int, sent: Call) -> Iterator[Call]:
    """Return the other receives of a rank that could have taken a message."""
    state = inspection.state(receiver)
    for call in state.history if state is not None else ():
        is_like = call.family in _RECEIVING and call.communicator == received.communicator
        is_like = is_like and call.incoming.source == received.incoming.source
        if is_like and call.number != received.number and call.incoming.tag in (ANY, sent.tag):
            yield call


def _is_alike(sent: Call, received: Call) -> bool:
    """Say whether a receive is made for a message of just this size and type."""
    incoming = received.incoming
    return sent.dtype == incoming.dtype and 0 <= sent.num_bytes == incoming.num_bytes


def _fits(sent: Call, received: Call) -> bool:
    """Say whether a message has the type of a receive, and goes into it."""
    return sent.dtype == received.incoming.dtype and 0 <= sent.num_bytes <= received.incoming.num_bytes


def _explain_crossed(
    sent: Call, received: Call, other_send: Call, other_receive: Call, sender: int, receiver: int
) -> Explanation:
    sends, receives = _in_order(sent, other_send), _in_order(received, other_receive)
    first, second = (f"{size_text(call) or 'bytes'} at {call.site}" for call in sends)
    room, next_room = (f"{room_text(call)} at {call.site}" for call in receives)
    return _order(
        f"{name_rank(sender)} sends {first} and then {second} to {name_rank(receiver)}, which receives {room} and then "
        f"{next_room}: in another order",
        f"let {name_rank(sender)} send in the order in which {name_rank(receiver)} receives: messages of two ranks "
        "meet in the order of their calls, unless each has a tag of its own",
        sender, receiver,
    )  # fmt: skip


def _explain_left_out(received: Call, other_receive: Call, sender: int, receiver: int) -> Explanation:
    first, _ = _in_order(received, other_receive)
    return Explanation(
        ranks=tuple(sorted({sender, receiver})),
        summary=f"{name_rank(sender)} left out the message of {room_text(first)} that {name_rank(receiver)} receives "
        f"at {first.site}: that receive took the one after it",
        cause=Cause.RECEIVE_WITHOUT_SEND,
        advice=f"find out whether {name_rank(sender)} passed over the send of {room_text(first)}: every receive needs "
        "its send",
    )


def _explain_sends(sent: Call, received: Call, later: Call, sender: int, receiver: int) -> Explanation:
    is_type = "any" not in (sent.dtype, received.incoming.dtype) and sent.dtype != received.incoming.dtype
    why = "the element types differ" if is_type else "more than there is room for"
    return _order(
        f"{name_rank(sender)} sends {size_text(sent) or 'bytes'} at {sent.site} and then {size_text(later) or 'bytes'} "
        f"at {later.site}; {name_rank(receiver)} receives {room_text(received)} at {received.site} where the first of "
        f"them comes: {why}",
        f"receive the message that is sent at {sent.site} before the one that the receive at {received.site} is for: "
        "there must be a receive for each send, in the same order",
        sender, receiver,
    )  # fmt: skip


def _explain_receives(sent: Call, received: Call, later: Call, sender: int, receiver: int) -> Explanation:
    return _order(
        f"{name_rank(receiver)} posts a receive of {room_text(received)} at {received.site} and then one of "
        f"{room_text(later)} at {later.site}; {name_rank(sender)} sends {size_text(sent) or 'bytes'} at {sent.site} "
        "first",
        f"post the {call_name(later)} of {room_text(later)} first, or let {name_rank(sender)} send another message "
        "before this one: messages of two ranks meet in the order of their calls, unless each has a tag of its own",
        sender, receiver,
    )  # fmt: skip


def _in_order(one: Call, other: Call) -> tuple[Call, Call]:
    return (one, other) if one.number < other.number else (other, one)


def _order(summary: str, advice: str, sender: int, receiver: int) -> Explanation:
    return Explanation(
        ranks=tuple(sorted({sender, receiver})), summary=summary, cause=Cause.MESSAGE_ORDER, advice=advice
    )  # fmt: skip


def room_text(call: Call) -> str:
    """Name the room of a receive in elements, where the size of one is known."""
    incoming = call.incoming
    element_bytes = int(digits) if (digits := incoming.dtype[1:]).isdecimal() else 0
    is_whole = call.family is Family.EXCHANGE and element_bytes and incoming.num_bytes % element_bytes == 0
    if is_whole and incoming.num_bytes >= 0:
        return f"{incoming.num_bytes // element_bytes} x {incoming.dtype}"
    if call.family is Family.EXCHANGE:
        return f"{incoming.num_bytes} bytes of {incoming.dtype}"
    return size_text(call) or "bytes"
