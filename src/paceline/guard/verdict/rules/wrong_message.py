"""The rule of wrong messages: a rank waits for one that nobody sends, while another that nobody wants is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingField, FindingKind, explained_finding
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, RankState
from paceline.guard.verdict.wording import call_name, member_rank, tag_text

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
        receives = [
            call
            for waiting in state.waiting
            for call in waiting.awaited
            if call.family in (Family.RECEIVE, Family.PROBE, Family.EXCHANGE)
        ]
        unwanted = [
            message
            for message in messages[rank]
            if not any(map(message.is_for, receives)) and not _is_for_a_later_receive(state, message, receives)
        ]
        for call in receives:
            if unwanted and not any(message.is_for(call) for message in messages[rank]):
                _, nearest = min((message.distance(call), number) for number, message in enumerate(unwanted))
                return _finding(inspection, rank, call, unwanted[nearest])
    return None


def _is_for_a_later_receive(state: RankState, message: UnreceivedMessage, waiting: Sequence[Call]) -> bool:
    """Say whether the rank has received such messages at another line before: then it is to be received there again."""
    lines = {line_of(call) for call in waiting}
    return any(
        past.family in (Family.RECEIVE, Family.EXCHANGE) and line_of(past) not in lines and message.is_for(past)
        for past in state.history
    )


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
    explanation = Explanation(
        ranks=tuple(sorted({rank, message.sender})),
        summary=f"rank {rank} waits in {call_name(call)} at {call.site} for a message from "
        f"{member_rank(inspection, call, source)} with {tag_text(tag)}, which nobody sends; "
        f"rank {message.sender} has sent it one with {tag_text(message.tag)}{on}{at}",
        cause=_CAUSES[field],
        advice=f"make the {field} of the receive at {call.site} and of the send{at} the same",
    )
    calls = {rank: call} | ({message.sender: send} if send is not None else {})
    return explained_finding(FindingKind.MESSAGE, explanation, rank_groups(inspection, calls), field=field)


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
