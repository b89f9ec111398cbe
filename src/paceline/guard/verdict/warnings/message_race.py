"""message-race: a receive from any rank could have taken messages of several ranks, and took the one that came first.

It is certain where more messages had been sent to the receiver, when the receive returned, than one rank alone can have
had under way. How many were sent and received until then is known from the totals at the end of the job and from the
calls that came later; so only the last calls of a long job, which are still remembered, are looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.snapshot import Call, Membership, RankState
from paceline.guard.verdict.wording import call_name, name_ranks

_MAX_RECEIVES = 256  # of one rank that are looked at, the last ones
_MAX_SITES = 4
_SENDS, _RECEIVES = (Family.SEND, Family.EXCHANGE), (Family.RECEIVE, Family.EXCHANGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Race:
    """A receive, and the ranks whose messages it could have taken."""

    rank: int
    receive: Call
    senders: tuple[int, ...]
    sends: tuple[Call, ...]  # one of each line


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sender:
    """What a rank has sent to a receiver with the tags that a receive takes."""

    rank: int
    total: int
    num_received: int
    entered: Sequence[int]  # when, of those that are remembered
    calls: Sequence[Call]
    known_since: int  # calls from this time on are remembered

    def num_until(self, moment: int) -> int:
        """Return how many messages it had sent at a moment."""
        return self.total - (len(self.entered) - bisect_right(self.entered, moment))


def find_message_races(inspection: Inspection, ended_well: bool) -> list[JobWarning]:
    """Return the receives from any rank that several messages could meet, those of one line together."""
    if not ended_well or any(not state.messages_known or state.num_uncertain for state in inspection.states()):
        return []
    by_site: dict[str, list[_Race]] = {}
    for state in inspection.states():
        for race in _races_of(inspection, state):
            by_site.setdefault(race.receive.site, []).append(race)
    return [_warning(site, races) for site, races in sorted(by_site.items())]


def _races_of(inspection: Inspection, state: RankState) -> Iterator[_Race]:
    receives = [call for call in state.history if call.family in _RECEIVES and not call.failed]
    wild = [call for call in receives if call.family is Family.RECEIVE and call.incoming.source == ANY and call.left_ns]
    senders: dict[tuple[str, int], list[_Sender]] = {}
    for receive in wild[-_MAX_RECEIVES:]:
        communicator, tag = receive.communicator, receive.incoming.tag
        known = inspection.communicator(communicator)
        alike = [call for call in receives if call.communicator == communicator]
        if known is None or not receive.traits.blocks or communicator in state.forgotten:
            continue
        if tag != ANY and any(call.incoming.tag == ANY for call in alike):
            continue  # those may have taken messages with this tag too
        key = (communicator, tag)
        if key not in senders:
            senders[key] = list(_senders_to(inspection, state, known, communicator, tag))
        alike = [call for call in alike if tag in (ANY, call.incoming.tag)]
        num_later = sum(call.number >= receive.number for call in alike)
        found = _senders_at(senders[key], receive.left_ns, num_later)
        if found:
            lines = {call.site: call for sender in found for call in sender.calls if call.entered_ns <= receive.left_ns}
            ranks = tuple(sender.rank for sender in found)
            yield _Race(rank=state.rank, receive=receive, senders=ranks, sends=tuple(lines.values()))


def _senders_to(
    inspection: Inspection, receiver: RankState, known: Membership, communicator: str, tag: int
) -> Iterator[_Sender]:
    member = known.member(receiver.rank)
    for state in inspection.states():
        channels = [
            channel for channel in state.sent if channel[:2] == (communicator, member) and tag in (ANY, channel[2])
        ]
        if channels and state.rank in known.ranks:
            place = known.member(state.rank)
            calls = [
                call for call in state.history
                if call.family in _SENDS and (call.communicator, call.peer, call.tag) in channels
            ]  # fmt: skip
            yield _Sender(
                rank=state.rank,
                total=sum(state.sent[channel] for channel in channels),
                num_received=sum(receiver.received.get((communicator, place, channel[2]), 0) for channel in channels),
                entered=[call.entered_ns for call in calls],
                calls=calls,
                known_since=state.history[0].entered_ns if state.history and state.history[0].number else 0,
            )


def _senders_at(senders: Sequence[_Sender], moment: int, num_later: int) -> list[_Sender]:
    """Return the senders of messages that were under way at a moment, if they were certainly of several.

    `num_later` receives took what was under way then, or came later.
    """
    if any(sender.known_since > moment for sender in senders):
        return []
    if any(call.operation.endswith("_init") for sender in senders for call in sender.calls):
        return []  # when such messages were sent is not known
    num_received = sum(sender.num_received for sender in senders) - num_later
    num_waiting = sum(sender.num_until(moment) for sender in senders) - num_received
    most = [sender.num_until(moment) - max(0, sender.num_received - num_later) for sender in senders]
    if num_received < 0 or num_waiting < 2 or max(most) >= num_waiting:
        return []
    return [sender for sender, num in zip(senders, most, strict=True) if num > 0]


def _warning(site: str, races: Sequence[_Race]) -> JobWarning:
    ranks = tuple(sorted({race.rank for race in races}))
    senders = sorted({rank for race in races for rank in race.senders})
    sends = {call.site: call for race in races for call in race.sends}
    lines = ", ".join(f"{call_name(call)} at {line}" for line, call in sorted(sends.items())[: _MAX_SITES - 1])
    times = f", {len(races)} times" if len(races) > 1 else ""
    return JobWarning(
        cause=WarningCause.MESSAGE_RACE, ranks=ranks,
        summary=f"{call_name(races[0].receive)} from any rank at {site} took whichever came first of messages of "
        f"{name_ranks(senders)} that were under way at the same time ({lines}; {name_ranks(ranks)}{times})",
        advice="if what follows depends on which came first, receive from each rank by its number, or sort what came "
        "by its source; a queue of work does this on purpose",
        sites=(site, *[line for line in sorted(sends) if line != site][: _MAX_SITES - 1]),
    )  # fmt: skip
