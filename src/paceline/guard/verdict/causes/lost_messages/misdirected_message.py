"""A message that was sent to one rank while another waits for it: the first never receives from its sender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.wording import call_name, name_rank, name_ranks, tag_text, verb

_RECEIVING = (Family.RECEIVE, Family.EXCHANGE, Family.PROBE)


def explain_misdirected(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain a rank that sends to one that never receives from it, while others wait for its message."""
    receives = _receives_by_source(calls)
    for sender, call in sorted(calls.items()):
        known = inspection.communicator(call.communicator)
        receiver = known.rank_of(call.peer) if known is not None and call.family is Family.SEND else None
        if known is None or receiver in (None, sender) or receiver is None:
            continue
        if may_receive(inspection, receiver, call, known.member(sender)):
            continue
        member = known.member(sender)
        from_sender = receives.get((call.communicator, member), ())
        waiting = [rank for rank in from_sender if calls[rank].incoming.takes(member, call.tag)]
        if waiting and receiver not in waiting:
            told = tell_misdirected(
                call, call.tag, sender=sender, receiver=receiver, waiting=sorted(waiting),
                receive=calls[min(waiting)], ranks=(sender,), never=True,
            )  # fmt: skip
            return [told]
    return []


def may_receive(inspection: Inspection, rank: int, call: Call, sender: int) -> bool:
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


def tell_misdirected(
    send: Call | None, tag: int, *, sender: int, receiver: int, waiting: Sequence[int], receive: Call,
    ranks: tuple[int, ...], never: bool,
) -> Explanation:  # fmt: skip
    """Say that a message went to a rank that does not take it, while others wait for one like it.

    Args:
        send: What sent it, if that is remembered.
        tag: Its tag.
        sender: The rank that did.
        receiver: Where it went to.
        waiting: The ranks that wait for such a message.
        receive: The call in which the first of them waits.
        ranks: The ranks that are out of line.
        never: Whether the receiver has never received from the sender; else it only does not take this one.
    """
    sends = f"{call_name(send)} at {send.site}" if send is not None else "send"
    details = f"{sends}, {tag_text(tag)}" if send is not None else tag_text(tag)
    takes = "which never receives from it" if never else "which does not receive it"
    return Explanation(
        ranks=ranks,
        summary=f"{name_rank(sender)} sends to {name_rank(receiver)} ({details}), {takes}, while "
        f"{name_ranks(waiting)} {verb(waiting, 'waits', 'wait')} for a message of {name_rank(sender)} "
        f"({call_name(receive)} at {receive.site})",
        cause=Cause.SEND_WITHOUT_RECEIVE,
        advice=f"look at the destination of the {sends} on {name_rank(sender)}: send to {name_ranks(waiting)}, or let "
        f"{name_rank(receiver)} receive the message",
    )
