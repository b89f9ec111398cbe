"""The rule of messages that do not fit: another element type, or more bytes than the receive has room for.

Most are found before the call. Which message a receive from any rank takes is not known by then: those are found by the
error of the library, or by its abort.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from paceline.guard.shared_memory.layout import STOP_MESSAGE
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes.lost_messages.message_order import explain_message_order, room_text
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingField, FindingKind, explained_finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.order_of_ends import open_call
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.rules.passed import MessagePair
from paceline.guard.verdict.snapshot import Call, EndKind, Membership, RankState
from paceline.guard.verdict.waits.waited_for import has_been_received
from paceline.guard.verdict.wording import name_rank, size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A message that does not go into its receive."""

    field: FindingField
    sender: int
    receiver: int
    sent: Call
    received: Call


def find_misfit(inspection: Inspection) -> Finding | None:
    """Find a message that a rank has stopped at."""
    for state in inspection.states():
        if state.stop is not None and state.stop.reason == STOP_MESSAGE:
            misfit = _misfit_at(inspection, state.rank, state.stop.call, state.stop.peer)
            if misfit is not None:
                return _finding(inspection, misfit)
    return None


def find_passed_misfit(inspection: Inspection, pair: MessagePair) -> Finding | None:
    """Find a message between two ranks that did not fit, although they may have gone on since."""
    sending, receiving = inspection.state(pair.sender), inspection.state(pair.receiver)
    known = inspection.communicator(pair.communicator)
    if sending is None or receiving is None or known is None:
        return None
    if any(not state.messages_known or state.num_uncertain for state in (sending, receiving)):
        return None  # which message is the n-th is not certain
    sender, receiver = known.member(pair.sender), known.member(pair.receiver)
    sent = {
        (call.tag, call.message_number): call
        for call in _past_messages(sending, pair.communicator, Family.SEND)
        if call.peer == receiver and call.message_number
    }
    for received in _past_messages(receiving, pair.communicator, Family.RECEIVE):
        call = sent.get((received.incoming.tag, received.incoming.number))
        field = _misfit_field(call, receiver, received, sender) if call is not None else None
        if call is not None and field is not None:
            misfit = Misfit(field=field, sender=pair.sender, receiver=pair.receiver, sent=call, received=received)
            return _finding(inspection, misfit)
    return None


def find_any_passed_misfit(inspection: Inspection) -> Finding | None:
    """Find a message of the past that did not fit, as far as the past is remembered."""
    sent: dict[tuple[str, int, int, int, int], Call] = {}  # communicator, sender, receiver, tag, number
    pairs = dict[MessagePair, None]()  # in the order of receives
    for state, known, call in _messages_of(inspection, Family.SEND):
        sent[call.communicator, known.member(state.rank), call.peer, call.tag, call.message_number] = call
    for state, known, call in _messages_of(inspection, Family.RECEIVE):
        incoming, receiver = call.incoming, known.member(state.rank)
        if incoming.number and 0 <= incoming.source < len(known.ranks):
            other = sent.get((call.communicator, incoming.source, receiver, incoming.tag, incoming.number))
            if other is not None and _misfit_field(other, receiver, call, incoming.source) is not None:
                pairs[MessagePair(call.communicator, known.ranks[incoming.source], state.rank)] = None
    found = (find_passed_misfit(inspection, pair) for pair in pairs)
    return next((finding for finding in found if finding is not None), None)


def _messages_of(inspection: Inspection, family: Family) -> Iterator[tuple[RankState, Membership, Call]]:
    """Yield the sends or the receives of all ranks on communicators with one side."""
    for state in inspection.states():
        for communicator in dict.fromkeys(call.communicator for call in state.history):  # the same order each time
            known = inspection.communicator(communicator)
            if known is not None and not known.num_first:
                yield from ((state, known, call) for call in _past_messages(state, communicator, family))


def _past_messages(state: RankState, communicator: str, family: Family) -> Iterator[Call]:
    """Yield the sends or the receives of a rank on a communicator that did not fail, nor were cancelled."""
    for call in state.history:
        if call.communicator == communicator and call.family in (family, Family.EXCHANGE) and not call.failed:
            yield call


def find_truncated(inspection: Inspection) -> Finding | None:
    """Find a message that ended its receiver, because it was larger than the buffer."""
    for state in inspection.states():
        for received in _failed_receives(state):
            misfit = _too_large(inspection, state.rank, received)
            if misfit is not None:
                return _finding(inspection, misfit)
    return None


def _finding(inspection: Inspection, misfit: Misfit) -> Finding:
    groups = rank_groups(inspection, {misfit.sender: misfit.sent, misfit.receiver: misfit.received})
    return explained_finding(FindingKind.MESSAGE, _explain(inspection, misfit), groups, field=misfit.field)


def _failed_receives(state: RankState) -> list[Call]:
    """Return the receives of which one may have ended a rank: gloo aborts, MPI raises."""
    end, call, begun = state.end, None, state.history
    if end is not None and end.kind is EndKind.RAISED and end.may_be_truncated:
        call = state.call(end.failed_call)
    elif end is not None and end.signal == signal.SIGABRT:
        call, begun = open_call(state), state.posted  # what is complete cannot have ended it
    if call is not None and call.family is Family.WAIT:
        return [posted for posted in begun if posted.family is Family.RECEIVE and posted.request]
    return [call] if call is not None and call.family in (Family.RECEIVE, Family.EXCHANGE) else []


def _too_large(inspection: Inspection, receiver: int, received: Call) -> Misfit | None:
    """Return the latest message to a receive that it has no room for, whoever sent it."""
    known = inspection.communicator(received.communicator)
    if known is None:
        return None
    by_sender = (_sent_to(inspection, receiver, state, received) for state in inspection.states())
    for sent_together in zip_longest(*by_sender):
        for sender, sent in filter(None, sent_together):
            if _misfit_field(sent, known.member(receiver), received, known.member(sender)) is FindingField.COUNT:
                return Misfit(
                    field=FindingField.COUNT, sender=sender, receiver=receiver, sent=sent, received=received
                )  # fmt: skip
    return None


def _sent_to(inspection: Inspection, receiver: int, state: RankState, received: Call) -> Iterator[tuple[int, Call]]:
    """Yield what a rank has sent to another on the communicator of a receive and is not received, the latest first."""
    known = inspection.communicator(received.communicator)
    for sent in reversed(state.history):
        is_message = sent.family in (Family.SEND, Family.EXCHANGE) and sent.communicator == received.communicator
        if known is None or not is_message or sent.peer != known.member(receiver):
            continue
        if not has_been_received(inspection, state, sent):
            yield state.rank, sent


def _misfit_at(inspection: Inspection, rank: int, call: Call, peer: int) -> Misfit | None:
    other_state, known = inspection.state(peer), inspection.communicator(call.communicator)
    if other_state is None or known is None:
        return None
    for other in reversed(other_state.history):
        if other.communicator != call.communicator or (other.request and other.failed):
            continue  # on another communicator, or cancelled
        for sender, sent, receiver, received in ((rank, call, peer, other), (peer, other, rank, call)):
            field = _misfit_field(sent, known.member(receiver), received, known.member(sender))
            if field is not None:
                return Misfit(field=field, sender=sender, receiver=receiver, sent=sent, received=received)
    return None


def _misfit_field(sent: Call, receiver: int, received: Call, sender: int) -> FindingField | None:
    """Return in what the n-th message between two members does not fit its receive; None if these are not its sides."""
    if sent.family not in (Family.SEND, Family.EXCHANGE) or sent.peer != receiver:
        return None
    if received.family not in (Family.RECEIVE, Family.EXCHANGE):
        return None
    incoming = received.incoming
    another = incoming.number and sent.message_number and incoming.number != sent.message_number
    if another or not incoming.takes(sender, sent.tag):
        return None
    typed = "any" not in (sent.dtype, incoming.dtype) and 0 not in (sent.num_bytes, incoming.num_bytes)
    if typed and sent.dtype != incoming.dtype:
        return FindingField.DTYPE
    if sent.num_bytes >= 0 and incoming.num_bytes >= 0 and sent.num_bytes > incoming.num_bytes:
        return FindingField.COUNT
    return None


def _explain(inspection: Inspection, misfit: Misfit) -> list[Explanation]:
    by_order, is_told = explain_message_order(
        inspection, misfit.sent, misfit.received, sender=misfit.sender, receiver=misfit.receiver
    )  # fmt: skip
    return by_order if is_told else [*by_order, _explain_size(misfit)]


def _explain_size(misfit: Misfit) -> Explanation:
    sent, received = misfit.sent, misfit.received
    is_type = misfit.field is FindingField.DTYPE
    why = "the element types differ" if is_type else "more than there is room for"
    return Explanation(
        ranks=tuple(sorted({misfit.sender, misfit.receiver})),
        summary=f"{name_rank(misfit.sender)} sends {size_text(sent) or 'bytes'} at {sent.site}, "
        f"{name_rank(misfit.receiver)} receives {room_text(received)} at {received.site}: {why}",
        cause=Cause.DTYPE if is_type else Cause.TRUNCATED,
        advice=f"give the receive at {received.site} the element type and the size of the send at {sent.site}"
        if is_type
        else f"make the buffer at {received.site} at least as large as the message sent at {sent.site}",
    )
