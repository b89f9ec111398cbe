"""The rule of messages that do not fit: another element type, or more bytes than the receive has room for."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.guard.shared_memory.layout import ANY, STOP_MESSAGE
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingField, FindingKind, explained_finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call
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
                calls = {misfit.sender: misfit.sent, misfit.receiver: misfit.received}
                groups = rank_groups(inspection, calls)
                return explained_finding(FindingKind.MESSAGE, _explain(inspection, misfit), groups, field=misfit.field)
    return None


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


def _explain(inspection: Inspection, misfit: Misfit) -> Explanation:
    sent, received = misfit.sent, misfit.received
    is_type = misfit.field is FindingField.DTYPE
    why = "another element type" if is_type else "more than there is room for"
    later = _later_send_that_fits(inspection, misfit)
    if later is not None:
        return Explanation(
            ranks=tuple(sorted({misfit.sender, misfit.receiver})),
            summary=f"{name_rank(misfit.sender)} sends {size_text(sent) or 'bytes'} at {sent.site} and then "
            f"{size_text(later) or 'bytes'} at {later.site}; {name_rank(misfit.receiver)} receives "
            f"{_room_text(received)} at {received.site} where the first of them comes: {why}",
            cause=Cause.MESSAGE_ORDER,
            advice=f"receive the message that is sent at {sent.site} before the one that the receive at "
            f"{received.site} is for: there must be a receive for each send, in the same order",
        )
    return Explanation(
        ranks=tuple(sorted({misfit.sender, misfit.receiver})),
        summary=f"{name_rank(misfit.sender)} sends {size_text(sent) or 'bytes'} at {sent.site}, "
        f"{name_rank(misfit.receiver)} receives {_room_text(received)} at {received.site}: {why}",
        cause=Cause.DTYPE if is_type else Cause.TRUNCATED,
        advice=f"give the receive at {received.site} the element type and the size of the send at {sent.site}"
        if is_type
        else f"make the buffer at {received.site} at least as large as the message sent at {sent.site}",
    )


def _later_send_that_fits(inspection: Inspection, misfit: Misfit) -> Call | None:
    """Return the next message of the sender to the receiver, from another line, if that is what the receive wants."""
    state, sent, incoming = inspection.state(misfit.sender), misfit.sent, misfit.received.incoming
    for later in state.history if state is not None else ():
        is_next = later.number > sent.number and later.communicator == sent.communicator and later.peer == sent.peer
        if is_next and later.family is Family.SEND and later.site != sent.site:
            fits = later.dtype == incoming.dtype and 0 <= later.num_bytes <= incoming.num_bytes
            return later if fits and incoming.tag in (ANY, later.tag) else None
    return None


def _room_text(call: Call) -> str:
    if call.family is Family.EXCHANGE:
        return f"{call.source_bytes} bytes of {call.source_dtype}"
    return size_text(call) or "bytes"
