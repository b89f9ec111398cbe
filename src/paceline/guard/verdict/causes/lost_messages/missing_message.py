"""A rank came to its end, and another still waits for a message between them."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes.compared_roles import explain_send_to_others
from paceline.guard.verdict.causes.lost_messages.wrapped_neighbour import explain_wrapped_neighbour
from paceline.guard.verdict.causes.uneven_loop import EVEN_STEPS
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, RankState
from paceline.guard.verdict.waits.waited_for import first_unmet, has_arrived
from paceline.guard.verdict.wording import call_name, member_rank, name_rank, name_ranks, nth, tag_text, verb

_RECEIVING = (Family.RECEIVE, Family.PROBE)


def explain_missing_message(inspection: Inspection, ended: Sequence[int], waiting: Sequence[int]) -> list[Explanation]:
    """Explain a receive from one rank, or a send to it, that came to its end by itself; nothing for other waits."""
    if len(ended) != 1 or not waiting:
        return []
    state, gone = inspection.state(waiting[0]), inspection.state(ended[0])
    call = _unmet_call(inspection, state) if state is not None else None
    if state is None or gone is None or gone.end is None or call is None:
        return []
    known = inspection.communicator(call.communicator)
    fewer = _explain_fewer_rounds(inspection, gone, state, call)
    if fewer is not None:
        return [fewer]
    partner = call.peer if call.family is Family.SEND else call.incoming.source
    if known is None or partner == ANY or known.rank_of(partner) != gone.rank:
        return []
    if call.family is Family.EXCHANGE and has_arrived(inspection, state, call):
        return []  # what it sends is not received
    by_others = explain_wrapped_neighbour(inspection, {state.rank: call}) or explain_send_to_others(
        inspection, {state.rank: call}
    )  # fmt: skip
    if by_others:
        return by_others
    how = f"{name_rank(gone.rank)} ended ({gone.end.detail})" if gone.end.detail else f"{name_rank(gone.rank)} ended"
    place = f"{call_name(call)} at {call.site}"
    waits = "waits" if state.end is None else "waited"
    if call.family in (*_RECEIVING, Family.EXCHANGE):
        num_sent = _num_sent(gone, call, known.member(state.rank))
        if state.end is not None and not num_sent:
            return []  # it died of the first message: how the other rank ended says more
        tag = "" if call.incoming.tag == ANY else f" with {tag_text(call.incoming.tag)}"
        messages = f"{num_sent} {'message' if num_sent == 1 else 'messages'}"
        return [
            Explanation(
                ranks=(gone.rank,) if call.family in _RECEIVING else tuple(sorted((gone.rank, state.rank))),
                summary=f"{how} after it sent {messages}{tag} to {name_rank(state.rank)}, which {waits} "
                f"in {place} for the {nth(num_sent + 1)}",
                cause=Cause.EARLY_EXIT,
                advice=f"send the message that the {place} waits for before {name_rank(gone.rank)} ends, or do not "
                f"receive it: count the sends of {name_rank(gone.rank)} and the receives of {name_rank(state.rank)}",
            )
        ]
    if call.family is not Family.SEND:
        return []
    return [
        Explanation(
            ranks=(gone.rank,),
            summary=f"{how}; {name_rank(state.rank)} {waits} in {place} until "
            f"{member_rank(inspection, call, call.peer)} receives the message",
            cause=Cause.EARLY_EXIT,
            advice=f"receive the message of the {place} before {name_rank(gone.rank)} ends, or do not send it",
        )
    ]


def _unmet_call(inspection: Inspection, state: RankState) -> Call | None:
    """Return what a rank waits for, or the call that it has died of."""
    thread = next(state.waiting, None)
    if thread is not None:
        return first_unmet(inspection, state, thread)
    return state.call(state.end.failed_call) if state.end is not None else None


def _explain_fewer_rounds(inspection: Inspection, gone: RankState, state: RankState, call: Call) -> Explanation | None:
    """Explain ranks that all make the same exchange, of which some make it more often than others."""
    made = {rank.rank: _num_made(rank, call) for rank in inspection.states()}
    if call.family not in (*_RECEIVING, Family.EXCHANGE) or not 0 < made[gone.rank] < made[state.rank]:
        return None
    fewer = [rank for rank, number in made.items() if number == made[gone.rank]]
    more = [rank for rank, number in made.items() if number > made[gone.rank]]
    if len(fewer) + len(more) != len(made):
        return None
    odd = sorted(made) if len(fewer) == len(more) else min(fewer, more, key=len)
    place = f"{call_name(call)} at {call.site}"
    number = made[gone.rank]
    return Explanation(
        ranks=tuple(odd),
        summary=f"{name_ranks(odd)} {'differ' if len(odd) == len(made) else 'fell out of line'}: {name_ranks(fewer)} "
        f"{verb(fewer, 'makes', 'make')} {number} {'call' if number == 1 else 'calls'} of {place}, "
        f"{name_ranks(more)} {verb(more, 'makes', 'make')} more; {name_rank(state.rank)} waits in the "
        f"{nth(made[state.rank])} for {name_rank(gone.rank)}, which has ended",
        cause=Cause.UNEVEN_STEPS,
        advice=EVEN_STEPS,
    )


def _num_made(state: RankState, call: Call) -> int:
    return sum(1 for past in state.history if line_of(past) == line_of(call))


def _num_sent(sender: RankState, call: Call, receiver: int) -> int:
    """Count the messages that a receive, or one like it, could have taken."""
    return sum(
        count
        for (communicator, peer, tag), count in sender.sent.items()
        if communicator == call.communicator and peer == receiver and call.incoming.tag in (ANY, tag)
    )
