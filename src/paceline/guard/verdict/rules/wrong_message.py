"""The rule of wrong messages: a rank waits for one that nobody sends, while another that nobody wants is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes.across_groups.making_order import find_making_order
from paceline.guard.verdict.causes.habit import usual_continuation
from paceline.guard.verdict.causes.lost_messages.misdirected_message import tell_misdirected
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingField, FindingKind, explained_finding
from paceline.guard.verdict.first_difference import line_of, shown_difference
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, RankState
from paceline.guard.verdict.waits.waited_for import has_arrived
from paceline.guard.verdict.wording import call_name, member_rank, name_rank, name_ranks, tag_text

_RECEIVING = (Family.RECEIVE, Family.PROBE, Family.EXCHANGE)
_CAUSES = {
    FindingField.COMMUNICATOR: Cause.WRONG_COMMUNICATOR,
    FindingField.SOURCE: Cause.WRONG_SOURCE,
    FindingField.TAG: Cause.WRONG_TAG,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreceivedMessage:
    """A message that was sent to a rank and has not been received."""

    communicator: str
    member: int  # the sender's number there
    sender: int
    tag: int

    def is_for(self, call: Call) -> bool:
        """Say whether a receive would take it."""
        return self.communicator == call.communicator and call.incoming.takes(self.member, self.tag)

    def is_from(self, call: Call) -> bool:
        """Say whether it came from the rank that a receive names, as far as both are on one communicator."""
        return self.communicator != call.communicator or call.incoming.source in (ANY, self.member)

    def distance(self, call: Call) -> tuple[bool, bool, bool]:
        """Return in what it differs from what a receive wants: communicator, source, tag."""
        source, tag = call.incoming[:2]
        return self.communicator != call.communicator, source not in (ANY, self.member), tag not in (ANY, self.tag)


def find_wrong_message(inspection: Inspection, stuck: frozenset[int]) -> Finding | None:
    """Find a receive that waits for a message, while one is there that no receive of the rank wants."""
    messages = unreceived_messages(inspection)
    for rank in sorted(stuck & messages.keys()):
        state = inspection.state(rank)
        assert state is not None
        receives = [call for waiting in state.waiting for call in waiting.awaited if call.family in _RECEIVING]
        unwanted = [
            message
            for message in messages[rank]
            if not any(map(message.is_for, receives)) and not _is_for_a_later_receive(state, message, receives)
        ]
        for call in receives:
            if any(message.is_for(call) for message in messages[rank]):
                continue
            suspects = [message for message in unwanted if message.is_from(call) or not _is_as_usual(state, call)]
            if suspects:
                _, nearest = min((message.distance(call), number) for number, message in enumerate(suspects))
                message = suspects[nearest]
                elsewhere = _wanted_elsewhere(inspection, stuck, rank, message)
                if elsewhere is not None and _has_used(inspection, rank, call, message):
                    return _misdirected(inspection, rank, message, *elsewhere)
                return _finding(inspection, rank, call, message)
    return None


def _wanted_elsewhere(
    inspection: Inspection, stuck: frozenset[int], receiver: int, message: UnreceivedMessage
) -> tuple[int, Call] | None:
    """Return a rank that waits for this very message, of this sender and with this tag, and its receive."""
    for rank in sorted(stuck - {receiver, message.sender}):
        state = inspection.state(rank)
        calls = [call for waiting in state.waiting for call in waiting.awaited] if state is not None else []
        for call in calls:
            is_exact = call.family in _RECEIVING and ANY not in call.incoming[:2]
            if state is not None and is_exact and message.is_for(call) and not has_arrived(inspection, state, call):
                return rank, call
    return None


def _misdirected(inspection: Inspection, receiver: int, message: UnreceivedMessage, rank: int, call: Call) -> Finding:
    """Tell of a message that one rank waits for, and that was sent to another, which receives its like from it."""
    send = _send_of(inspection, message, receiver)
    explanation = tell_misdirected(
        send, message.tag, sender=message.sender, receiver=receiver, waiting=[rank], receive=call,
        ranks=tuple(sorted((message.sender, receiver))), never=False,
    )  # fmt: skip
    calls = {rank: call} | ({message.sender: send} if send is not None else {})
    return explained_finding(
        FindingKind.MESSAGE, explanation, rank_groups(inspection, calls), field=FindingField.SOURCE
    )


def _is_for_a_later_receive(state: RankState, message: UnreceivedMessage, waiting: Sequence[Call]) -> bool:
    """Say whether the rank has received such messages at another line before: then it is to be received there again."""
    lines = {line_of(call) for call in waiting}
    return any(
        past.family in (Family.RECEIVE, Family.EXCHANGE) and line_of(past) not in lines and message.is_for(past)
        for past in state.history
    )


def _is_as_usual(state: RankState, call: Call) -> bool:
    """Say whether a rank receives from whom it did in earlier rounds: then a message of another is not for this."""
    past = [(*line_of(item), *item.peers) for item in state.history if item.number < call.number]
    return usual_continuation(past)[:1] == [(*line_of(call), *call.peers)]


def unreceived_messages(inspection: Inspection) -> dict[int, list[UnreceivedMessage]]:
    """Return the messages that have been sent and not received, by the rank they were sent to."""
    messages: dict[int, list[UnreceivedMessage]] = {}
    for sender in inspection.states():
        for (identity, peer, tag), count in sender.sent.items():
            known = inspection.communicator(identity)
            rank = known.rank_of(peer) if known is not None else None
            receiver = inspection.state(rank) if rank is not None else None
            if known is None or receiver is None:
                continue
            member = known.member(sender.rank)
            if count > receiver.received.get((identity, member, tag), 0):
                message = UnreceivedMessage(communicator=identity, member=member, sender=sender.rank, tag=tag)
                messages.setdefault(receiver.rank, []).append(message)
    return messages


def _finding(inspection: Inspection, rank: int, call: Call, message: UnreceivedMessage) -> Finding:
    other_communicator, other_source, _ = message.distance(call)
    field = FindingField.SOURCE if other_source else FindingField.TAG
    if other_communicator:
        field = FindingField.COMMUNICATOR
    send = _send_of(inspection, message, rank)
    at = f" at {send.site}" if send is not None else ""
    on = f" on {inspection.name(message.communicator)}" if other_communicator else ""
    source, tag = call.incoming[:2]
    cause = _CAUSES[field]
    advice = f"make the {field} of the receive at {call.site} and of the send{at} the same"
    counted = _used_before(inspection, rank, call, message, send)
    if field is FindingField.TAG and counted is not None:
        cause = Cause.MESSAGE_ORDER
        user, used = counted
        where = f" at {call.site}" if user == rank else at
        advice = (
            f"find out whether {name_ranks(sorted((rank, message.sender)))} are in the same step: "
            f"{name_rank(user)} has used {tag_text(used)}{where} before"
        )
    explanation = Explanation(
        ranks=tuple(sorted({rank, message.sender})),
        summary=f"{name_rank(rank)} waits in {call_name(call)} at {call.site} for a message from "
        f"{member_rank(inspection, call, source)} with {tag_text(tag)}, which nobody sends; "
        f"{name_rank(message.sender)} has sent it one with {tag_text(message.tag)}{on}{at}",
        cause=cause,
        advice=advice,
    )
    calls = {rank: call} | ({message.sender: send} if send is not None else {})
    made = find_making_order(inspection, (call.communicator, message.communicator)) if other_communicator else None
    return explained_finding(
        FindingKind.MESSAGE, made.explanation if made else explanation, rank_groups(inspection, calls), field=field,
        first_difference=shown_difference(inspection, made.differing) if made else None,
    )  # fmt: skip


def _used_before(
    inspection: Inspection, rank: int, call: Call, message: UnreceivedMessage, send: Call | None
) -> tuple[int, int] | None:
    """Return which of both sides has used the other's tag at its own line before, and that tag: tags count steps."""
    if _has_used(inspection, rank, call, message):
        return rank, message.tag
    state = inspection.state(message.sender)
    past = state.history if state is not None and send is not None else ()
    used = any(item.tag == call.incoming.tag and line_of(item) == line_of(send) for item in past if send is not None)
    return (message.sender, call.incoming.tag) if used else None


def _has_used(inspection: Inspection, rank: int, call: Call, message: UnreceivedMessage) -> bool:
    """Say whether a rank has already received from the same line with the tag of a message: it counts its steps."""
    state = inspection.state(rank)
    return any(
        past.number < call.number and line_of(past) == line_of(call) and past.incoming.tag == message.tag
        for past in (state.history if state is not None else ())
        if past.family in _RECEIVING
    )


def _send_of(inspection: Inspection, message: UnreceivedMessage, receiver: int) -> Call | None:
    """Return the call that sent a message, if it is remembered."""
    sender, known = inspection.state(message.sender), inspection.communicator(message.communicator)
    if sender is None or known is None:
        return None
    me = known.member(receiver)
    for past in reversed(sender.history):
        sends = past.family in (Family.SEND, Family.EXCHANGE)
        if sends and past.communicator == message.communicator and (past.peer, past.tag) == (me, message.tag):
            return past
    return None
