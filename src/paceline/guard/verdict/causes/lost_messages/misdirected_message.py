"""A message that was sent to one rank while another waits for it: the first never receives from its sender."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.wording import call_name, name_ranks, tag_text, verb

_RECEIVING = (Family.RECEIVE, Family.EXCHANGE, Family.PROBE)


def explain_misdirected(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain a rank that sends to one that never receives from it, while others wait for its message."""
    receives = _receives_by_source(calls)
    for sender, call in sorted(calls.items()):
        known = inspection.communicator(call.communicator)
        receiver = known.rank_of(call.peer) if known is not None and call.family is Family.SEND else None
        if known is None or receiver in (None, sender) or receiver is None:
            continue
        if _may_receive(inspection, receiver, call, known.member(sender)):
            continue
        member = known.member(sender)
        from_sender = receives.get((call.communicator, member), ())
        waiting = [rank for rank in from_sender if calls[rank].incoming.takes(member, call.tag)]
        if waiting and receiver not in waiting:
            return [_explain(sender, call, receiver, sorted(waiting), calls[min(waiting)])]
    return []


def _may_receive(inspection: Inspection, rank: int, call: Call, sender: int) -> bool:
    """Say whether a rank has ever received from a sender, or may have done so before what is remembered."""
    state = inspection.state(rank)
    if state is None or not state.history or state.history[0].number:
        return True
    return any(
        past.family in _RECEIVING
        and past.communicator == call.communicator
        and past.incoming.source in (ANY, sender)
        for past in state.history
    )  # fmt: skip


def _receives_by_source(calls: Mapping[int, Call]) -> dict[tuple[str, int], list[int]]:
    """Return the ranks that wait in a receive, by its communicator and the member that it names as its source."""
    ranks: dict[tuple[str, int], list[int]] = {}
    for rank, call in calls.items():
        if call.family is Family.RECEIVE:
            ranks.setdefault((call.communicator, call.peer), []).append(rank)
    return ranks


def _explain(sender: int, call: Call, receiver: int, waiting: list[int], receive: Call) -> Explanation:
    sends = f"{call_name(call)} at {call.site}"
    return Explanation(
        ranks=(sender,),
        summary=f"rank {sender} sends to rank {receiver} ({sends}, {tag_text(call.tag)}), which never receives from "
        f"it, while {name_ranks(waiting)} {verb(waiting, 'waits', 'wait')} for a message of rank {sender} "
        f"({call_name(receive)} at {receive.site})",
        cause=Cause.SEND_WITHOUT_RECEIVE,
        advice=f"look at the destination of the {sends} on rank {sender}: send to {name_ranks(waiting)}, or let rank "
        f"{receiver} receive the message",
    )
