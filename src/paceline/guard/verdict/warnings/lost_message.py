"""message-never-received: a message was sent, and the rank that it went to will never receive it.

That is certain once both ranks have ended well, or have freed the communicator. A rank that has cancelled, freed or
dropped a receive, or whose send or receive has raised, may have more or fewer messages than it counted: nothing is said
of those that it sent or that were sent to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.snapshot import Call, Channel, RankState
from paceline.guard.verdict.wording import call_name, name_ranks, size_text, tag_text

_RECEIVES = (Family.RECEIVE, Family.EXCHANGE)
_SENDS = (Family.SEND, Family.EXCHANGE)
_MAX_SITES = 4
_MAX_LOOKED_UP = 64  # messages of one channel whose lines are looked up


@dataclass(frozen=True, slots=True, kw_only=True)
class _LostMessages:
    """Messages of one rank to another that were sent by one line and never received."""

    sender: int
    receiver: int
    channel: Channel  # as the sender counts it
    count: int
    call: Call | None  # a send of one of them, if it is remembered


def find_lost_messages(inspection: Inspection, ended_well: bool) -> list[JobWarning]:
    """Return the messages that nobody received, those of one line together."""
    by_line: dict[str, list[_LostMessages]] = {}
    for lost in _lost_messages(inspection, ended_well):
        by_line.setdefault(lost.call.site if lost.call is not None else "", []).append(lost)
    return [_warning(inspection, site, lost) for site, lost in sorted(by_line.items())]


def _lost_messages(inspection: Inspection, ended_well: bool) -> Iterator[_LostMessages]:
    for sender in inspection.states():
        sends: _Sends | None = None
        for channel, num_sent in sender.sent.items():
            communicator, peer, tag = channel
            known = inspection.communicator(communicator)
            rank = known.rank_of(peer) if known is not None else None
            receiver = inspection.state(rank) if rank is not None else None
            if known is None or receiver is None or tag < 0 or sender.rank not in known.ranks:
                continue
            num_received = receiver.received.get((communicator, known.member(sender.rank), tag), 0)
            if num_sent <= num_received or not _is_certain(sender, receiver, communicator, ended_well):
                continue
            sends = sends or _Sends(sender)
            yield from _by_site(sends, sender, receiver.rank, channel, num_received, num_sent)


def _is_certain(sender: RankState, receiver: RankState, communicator: str, ended_well: bool) -> bool:
    for state in (sender, receiver):
        if not state.messages_known or state.num_uncertain or communicator in state.forgotten:
            return False
        if not ended_well and communicator not in state.freed:
            return False
    return not any(call.communicator == communicator and call.family in _RECEIVES for call in receiver.posted)


def _by_site(
    sends: _Sends, sender: RankState, receiver: int, channel: Channel, num_received: int, num_sent: int
) -> Iterator[_LostMessages]:
    """Return the messages that are lost by the lines that sent them. Messages of one channel do not overtake."""
    numbers = range(num_received + 1, num_sent + 1)[-_MAX_LOOKED_UP:]
    calls = [sends.find(channel, number) for number in numbers]
    by_site: dict[str, list[Call | None]] = {}
    for call in calls:
        by_site.setdefault(call.site if call is not None else "", []).append(call)
    rest = num_sent - num_received - len(calls)  # taken to be sent by the line that sent the first of these
    for made in by_site.values():
        count, rest = len(made) + rest, 0
        yield _LostMessages(sender=sender.rank, receiver=receiver, channel=channel, count=count, call=made[-1])


class _Sends:
    """The sends of a rank that are remembered."""

    def __init__(self, sender: RankState) -> None:
        self._by_number: dict[tuple[Channel, int], Call] = {}
        self._prepared: dict[Channel, Call] = {}  # persistent ones: their messages have no numbers
        for call in sender.history:
            if call.family in _SENDS:
                channel = (call.communicator, call.peer, call.tag)
                self._by_number[channel, call.message_number] = call
                if call.operation.endswith("_init"):
                    self._prepared[channel] = call

    def find(self, channel: Channel, number: int) -> Call | None:
        """Return the call that sent the n-th message of a channel, or prepared it."""
        return self._by_number.get((channel, number)) or self._prepared.get(channel)


def _warning(inspection: Inspection, site: str, lost: Sequence[_LostMessages]) -> JobWarning:
    ranks = tuple(sorted({each.sender for each in lost}))
    receivers = sorted({each.receiver for each in lost})
    num = sum(each.count for each in lost)
    what = f"{num} messages" if num > 1 else "a message"
    summary = f"{name_ranks(receivers)} never received {what} of {name_ranks(ranks)} ({_how(inspection, site, lost)})"
    took = _receives_from_anybody(inspection, lost)
    if took:
        whose = _whose(_received_from(inspection, lost[0]))
        summary += f"; the receive from any rank at {took[0].site} took {whose}"
    whom = "it" if len(receivers) == 1 else "them"
    advice = f"receive on {name_ranks(receivers)} once for every message that is sent to {whom}"
    advice += ", in a loop over the senders, or leave out the send" if took else ", or leave out the send"
    sites = [site] if site else []
    sites += [call.site for call in took if call.site not in sites]
    return JobWarning(
        cause=WarningCause.MESSAGE_NEVER_RECEIVED, ranks=ranks, summary=summary, advice=advice,
        sites=tuple(sites[:_MAX_SITES]),
    )  # fmt: skip


def _how(inspection: Inspection, site: str, lost: Sequence[_LostMessages]) -> str:
    """Name the call that sent messages, what they hold, their tag and their communicator."""
    call = lost[0].call
    parts = ["by a call that is no longer remembered"] if call is None else [f"{call_name(call)} at {site}"]
    parts += [size_text(call)] if call is not None else []
    tags = sorted({each.channel[2] for each in lost})
    parts.append(tag_text(tags[0]) if len(tags) == 1 else f"{len(tags)} tags")
    names = sorted({inspection.name(each.channel[0]) for each in lost})
    parts.append(f"on {names[0]}" if len(names) == 1 else f"on {len(names)} communicators")
    return ", ".join(part for part in parts if part and part != "on WORLD")


def _receives_from_anybody(inspection: Inspection, lost: Sequence[_LostMessages]) -> list[Call]:
    """Return the last receive from any rank at each line that could have taken one of the messages."""
    by_site: dict[str, Call] = {}
    for receiver, communicator in sorted({(each.receiver, each.channel[0]) for each in lost}):
        tags = {each.channel[2] for each in lost if (each.receiver, each.channel[0]) == (receiver, communicator)}
        state = inspection.state(receiver)
        for call in state.history if state is not None else ():
            is_like = call.communicator == communicator and call.family in _RECEIVES and call.incoming.source == ANY
            if is_like and any(call.incoming.tag in (ANY, tag) for tag in tags):
                by_site[call.site] = call
    return list(by_site.values())


def _received_from(inspection: Inspection, lost: _LostMessages) -> dict[int, int]:
    """Return how many messages the receiver has received from each other rank."""
    communicator = lost.channel[0]
    state, known = inspection.state(lost.receiver), inspection.communicator(communicator)
    counts: dict[int, int] = {}
    for (name, peer, _), count in (state.received if state is not None else {}).items():
        rank = known.rank_of(peer) if known is not None and name == communicator else None
        if rank is not None and count:
            counts[rank] = counts.get(rank, 0) + count
    return counts


def _whose(received: dict[int, int]) -> str:
    if not received:
        return "none of them"
    num = sum(received.values())
    return f"{'the message' if num == 1 else f'{num} messages'} of {name_ranks(sorted(received))}"
