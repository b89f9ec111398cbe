"""What a rank has left out, told by its own history: on which communicators, and which messages.

Ranks of different roles make different calls. A rank is compared with another member of the communicator that is stuck,
on the communicators that both are in, and with what it did itself in earlier rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from paceline.guard.shared_memory.layout import ANY
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes.habit import calls_left_out, usual_continuation
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.passed_over import can_be_left_out, can_be_made_again
from paceline.guard.verdict.waits.waited_for import has_arrived
from paceline.guard.verdict.wording import call_detail, call_name, name_rank, name_ranks, verb

_RECEIVING = (Family.RECEIVE, Family.PROBE, Family.EXCHANGE)
_LOOK_BACK = 60  # calls of a rank in which one that it left out is looked for


def explain_missing_member(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain ranks that have left out a collective on a communicator where others wait for them."""
    for rank, call in sorted(calls.items()):
        missing = sorted(inspection.missing_at(call.position) & calls.keys())
        late = [other for other in missing if _has_left_out(inspection, rank, other, call)]
        if late:
            left_out = _explain_missing_member(inspection, late, call, calls)
            theirs = calls[late[0]]
            if not _is_made_again(inspection, late[0], theirs) or not can_be_made_again(inspection, theirs, call):
                return [left_out]
            again = _explain_made_again(inspection, late, call, calls)
            return [left_out, again] if can_be_left_out(inspection, call, theirs) else [again]
    return []


def _is_made_again(inspection: Inspection, rank: int, call: Call) -> bool:
    """Say whether the collective before this one was made by the rank in the same line, on the same communicator."""
    state = inspection.state(rank)
    past = [one for one in (state.history if state is not None else ()) if one.is_collective]
    before = next((one for one in reversed(past) if one.number < call.number), None)
    return before is not None and (line_of(before), before.communicator) == (line_of(call), call.communicator)


def _explain_made_again(
    inspection: Inspection, late: Sequence[int], call: Call, calls: Mapping[int, Call]
) -> Explanation:
    theirs = calls[late[0]]
    waiting = sorted(rank for rank, other in calls.items() if other.position == call.position)
    name = f"{call_name(theirs)} on {inspection.name(theirs.communicator)} at {theirs.site}"
    return Explanation(
        ranks=tuple(late),
        summary=f"{name_ranks(late)} {verb(late, 'makes', 'make')} the {name} again, while {name_ranks(waiting)} "
        f"{verb(waiting, 'waits', 'wait')} for {verb(late, 'it', 'them')} in {call_name(call)} at {call.site} "
        f"({inspection.text(call.position)})",
        cause=Cause.EXTRA_CALL,
        advice=f"let every member make the {name} the same number of times: look for a retry, or for a condition that "
        f"is true on {name_ranks(late)} alone",
    )


def _has_left_out(inspection: Inspection, waiting: int, other: int, call: Call) -> bool:
    """Say whether a rank has left out the call that another waits in, after both did the same before."""
    shared = _shared_communicators(inspection, waiting, other)
    one, two = _lines(inspection, waiting, shared), _lines(inspection, other, shared)
    first = next((at for at, (mine, theirs) in enumerate(zip(one, two, strict=False)) if mine != theirs), None)
    if first is None or one[first] != (*line_of(call), call.communicator):
        return False
    return bool(calls_left_out(one[:first], one[first], two[first]))


def _shared_communicators(inspection: Inspection, *ranks: int) -> set[str]:
    """Return those of the communicators that ranks have called on of which all of them are members."""
    states = [state for rank in ranks if (state := inspection.state(rank)) is not None]
    used = {call.communicator for state in states for call in state.history}
    return {name for name in used if all(inspection.is_member(rank, name) for rank in ranks)}


def _lines(inspection: Inspection, rank: int, communicators: set[str]) -> list[tuple[str, ...]]:
    """Return the collectives of a rank in the order in which it made them, each with its communicator."""
    state = inspection.state(rank)
    past = state.history if state is not None else ()
    return [
        (*line_of(call), call.communicator)
        for call in past
        if call.is_collective and call.communicator in communicators
    ]


def _explain_missing_member(
    inspection: Inspection, late: Sequence[int], call: Call, calls: Mapping[int, Call]
) -> Explanation:
    waiting = sorted(rank for rank, other in calls.items() if other.position == call.position)
    theirs = calls[late[0]]
    name = f"{call_name(call)} on {inspection.name(call.communicator)} at {call.site}"
    return Explanation(
        ranks=tuple(late),
        summary=f"{name_ranks(late)} left out the {name}: {verb(late, 'it is', 'they are')} in {call_name(theirs)} on "
        f"{inspection.name(theirs.communicator)} at {theirs.site}, while {name_ranks(waiting)} "
        f"{verb(waiting, 'waits', 'wait')} for {verb(late, 'it', 'them')} in {inspection.text(call.position)}",
        cause=Cause.SKIPPED_CALL,
        advice=f"find out why {name_ranks(late)} left out the {name}: every member of the communicator must make it in "
        "every step",
    )


def explain_missing_send(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain a receive whose message was sent in earlier rounds, and was left out in this one."""
    for rank, call in sorted(calls.items()):
        state = inspection.state(rank)
        if call.family not in _RECEIVING or state is None or has_arrived(inspection, state, call):
            continue
        known = inspection.communicator(call.communicator)
        sender = known.rank_of(call.incoming.source) if known is not None else None
        send = _send_left_out(inspection, sender, known.member(rank), call) if known and sender is not None else None
        if send is not None and sender is not None:
            detail = call_detail(inspection, send)
            return [
                Explanation(
                    ranks=(sender,),
                    summary=f"{name_rank(sender)} left out the {call_name(send)} at {send.site} ({detail}), for which "
                    f"{name_rank(rank)} waits in {call_name(call)} at {call.site}",
                    cause=Cause.RECEIVE_WITHOUT_SEND,
                    advice=f"find out why {name_rank(sender)} left out the {call_name(send)} at {send.site}, which it "
                    "made in earlier rounds: every receive needs its send",
                )
            ]
    return []


def _send_left_out(inspection: Inspection, sender: int, receiver: int, call: Call) -> Call | None:
    """Return the send that would have met a receive and that its sender, by its own habit, has left out."""
    state = inspection.state(sender)
    # waits are left out: on a backend that only enqueues, a rank may wait for one call again and again
    past = [item for item in (state.history if state is not None else ()) if item.family is not Family.WAIT]
    if any(item.family in _RECEIVING and item.incoming.source == ANY for item in past):
        return None  # whom it sends to next depends on who was first: that is not a habit
    begin = next((at for at, item in enumerate(past) if not item.is_collective), len(past))
    past = past[begin:]  # what is done once at the start is not a round
    with_tags = _left_out_by_habit(past, [(*line_of(item), item.peer, item.tag) for item in past])
    without = _left_out_by_habit(past, [(*line_of(item), item.peer, 0) for item in past])
    known = inspection.communicator(call.communicator)
    member = known.member(sender) if known is not None else -1
    for item in with_tags:
        if item.communicator == call.communicator and item.peer == receiver and call.incoming.takes(member, item.tag):
            return item
    for item in without:  # tags that count steps are another one in every round
        is_for_it = item.communicator == call.communicator and item.peer == receiver
        if is_for_it and _was_received_there(inspection, past, item, call):
            return replace(item, tag=call.incoming.tag, dtype="any", num_bytes=-1, count=-1)  # this one was not made
    return None


def _left_out_by_habit(past: Sequence[Call], lines: Sequence[tuple[object, ...]]) -> list[Call]:
    """Return the sends that a rank usually makes where it went on without them, each as it was last made."""
    found: list[Call] = []
    for at in range(len(past) - 1, max(0, len(past) - _LOOK_BACK), -1):
        expected = usual_continuation(lines[:at])
        if not expected or lines[at] == expected[0] or lines[at] not in expected:
            continue
        left_out = [past[lines.index(line)] for line in expected[: expected.index(lines[at])]]
        found += [item for item in left_out if item.family in (Family.SEND, Family.EXCHANGE)]
    return found


def _was_received_there(inspection: Inspection, past: Sequence[Call], send: Call, call: Call) -> bool:
    """Say whether messages of a line went to the line of a receive before, whatever their tags were."""
    known = inspection.communicator(call.communicator)
    receiver = known.rank_of(send.peer) if known is not None else None
    state = inspection.state(receiver) if receiver is not None else None
    sent = {item.tag for item in past if line_of(item) == line_of(send) and item.peer == send.peer}
    return state is not None and any(
        item.family in _RECEIVING
        and line_of(item) == line_of(call)
        and item.number != call.number
        and item.incoming.source == call.incoming.source
        and item.incoming.tag in sent
        for item in state.history
    )
