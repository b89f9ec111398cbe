"""The rule of deadlocks: live ranks that can never move again. Who they are: stuck_ranks.py; here is why, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from paceline.errors import group_ranks
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes.across_groups.across_communicators import explain_across
from paceline.guard.verdict.causes.across_groups.making_order import find_making_order
from paceline.guard.verdict.causes.across_groups.sister_groups import explain_by_sisters
from paceline.guard.verdict.causes.across_groups.wrong_communicator import explain_wrong_communicator
from paceline.guard.verdict.causes.call_of_one_side import explain_items_of_a_loop
from paceline.guard.verdict.causes.compared_roles import (
    explain_another_order,
    explain_left_loop_of_messages,
    explain_send_that_others_make,
    explain_send_to_others,
)
from paceline.guard.verdict.causes.deviation import find_deviation
from paceline.guard.verdict.causes.explain_deviation import explain_deviation
from paceline.guard.verdict.causes.lost_messages.collective_among_messages import explain_collective_among_messages
from paceline.guard.verdict.causes.lost_messages.counted_messages import explain_fewer_sends
from paceline.guard.verdict.causes.lost_messages.misdirected_message import explain_misdirected
from paceline.guard.verdict.causes.lost_messages.wrapped_neighbour import explain_wrapped_neighbour
from paceline.guard.verdict.causes.own_history import explain_missing_member, explain_missing_send
from paceline.guard.verdict.causes.passed_over_call import explain_passed_over
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingField, FindingKind, explained_finding
from paceline.guard.verdict.first_difference import (
    DifferingCalls,
    find_first_difference,
    line_of,
    shown_difference,
)
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.rules.mismatch import minority
from paceline.guard.verdict.snapshot import Call, Position
from paceline.guard.verdict.source.related_lines import relate_calls
from paceline.guard.verdict.waits.waited_for import first_unmet, ranks_in_a_circle
from paceline.guard.verdict.wording import (
    call_detail,
    call_name,
    in_part_text,
    member_rank,
    name_ranks,
    nth,
    sites_text,
    tag_text,
    verb,
)

_TOLD_ELSEWHERE = (Family.EPOCH, Family.LOCK, Family.STORE)
_RECEIVING = (Family.RECEIVE, Family.PROBE)
_MAX_GROUPS = 4  # groups of ranks that a sentence names


def find_deadlock(inspection: Inspection, stuck: frozenset[int]) -> Finding:
    """Return the finding about ranks that can never move, and that no other rule explains."""
    position = _latest_position(inspection, stuck)
    differing = find_first_difference(inspection, position) if position is not None else None
    calls = _unmet_calls(inspection, stuck)
    # why ranks wait on a window or for a key is told by another rule, unless those they wait for have another reason
    told_elsewhere = [rank for rank, call in calls.items() if call.family in _TOLD_ELSEWHERE]
    if len(told_elsewhere) < len(calls):
        calls = {rank: call for rank, call in calls.items() if rank not in told_elsewhere}
    families = {call.family for call in calls.values()}
    explanations: list[Explanation] = []
    field = None
    communicators = {call.communicator: None for call in calls.values()}
    unseen = inspection.unseen_members(communicators)
    if unseen:
        explanations = [_explain_in_part(inspection, calls, unseen)]
    elif made := find_making_order(inspection, communicators):
        explanations, field, differing = [made.explanation], FindingField.COMMUNICATOR, made.differing
    elif families == {Family.COLLECTIVE}:
        explanations = _explain_collectives(inspection, calls, differing)
        field = FindingField.COMMUNICATOR if explanations[0].cause is Cause.CALL_ORDER else None
    else:
        explanations = (
            explain_wrapped_neighbour(inspection, calls)
            or explain_missing_send(inspection, calls)
            or explain_misdirected(inspection, calls)
            or explain_left_loop_of_messages(inspection, calls)
            or explain_collective_among_messages(inspection, calls)
            or explain_fewer_sends(inspection, calls)
            or explain_send_that_others_make(inspection, calls)
            or explain_send_to_others(inspection, calls)
        )
    if not explanations and Family.COLLECTIVE not in families:
        explanations = [_explain_messages(inspection, calls)]
    elif not explanations:
        explanations = [_explain_unreceived(inspection, calls) or _explain_unsent(inspection, calls)]
    return explained_finding(
        FindingKind.DEADLOCK, explanations, rank_groups(inspection), field=field,
        first_difference=shown_difference(inspection, differing),
    )  # fmt: skip


def _latest_position(inspection: Inspection, stuck: frozenset[int]) -> Position | None:
    """Return the furthest position that a stuck rank waits at."""
    states = [inspection.state(rank) for rank in sorted(stuck)]
    calls = [call for state in states if state for waiting in state.waiting for call in waiting.awaited]
    positions = [call.position for call in calls if call.is_collective]
    return max(positions, key=lambda position: position.sequence, default=None)


def _unmet_calls(inspection: Inspection, stuck: frozenset[int]) -> dict[int, Call]:
    """Return what each stuck rank waits for."""
    calls = {}
    for rank in sorted(stuck):
        state = inspection.state(rank)
        assert state is not None
        calls[rank] = first_unmet(inspection, state, next(state.waiting))
    return calls


def _explain_collectives(
    inspection: Inspection, calls: Mapping[int, Call], differing: DifferingCalls | None
) -> list[Explanation]:
    if len({call.communicator for call in calls.values()}) == 1:
        deviation = find_deviation(inspection, differing)
        if deviation is not None:
            return explain_deviation(inspection, deviation)
    known = (
        explain_wrong_communicator(inspection, calls)
        or explain_missing_member(inspection, calls)
        or explain_across(inspection, calls)
        or explain_by_sisters(inspection, calls)
        or explain_passed_over(inspection, calls)
        or explain_another_order(inspection, calls)
        or explain_items_of_a_loop(inspection, calls)
    )
    return known or [_explain_circle(inspection, calls)]


def _explain_circle(inspection: Inspection, calls: Mapping[int, Call]) -> Explanation:
    """Say who waits where; that it is the order of calls only where the source shows that all make the same ones."""
    cause, order = Cause.DIFFERENT_COLLECTIVES, "make and use communicators in the same order on every rank"
    advice = f"see whether a rank passes over one of these calls, or makes them in another order: {order}"
    if _are_the_same_calls(inspection, calls):
        cause, advice = Cause.CALL_ORDER, order
    return Explanation(
        ranks=_odd_ranks(calls),
        summary=f"{name_ranks(calls)} wait for each other on different communicators: {_text(inspection, calls)}",
        cause=cause,
        advice=advice,
    )


def _explain_in_part(inspection: Inspection, calls: Mapping[int, Call], unseen: Sequence[int]) -> Explanation:
    """Explain ranks that can never move, whatever those do that are out of sight, and accuse none of them."""
    if all(call.family not in _TOLD_ELSEWHERE and not call.is_collective for call in calls.values()):
        cause = _explain_messages(inspection, calls).cause
    else:
        cause = Cause.CALL_ORDER
    return Explanation(
        ranks=tuple(sorted(calls)),
        summary=f"{name_ranks(calls)} can never continue, whatever the other ranks do: {_text(inspection, calls)}; "
        f"{in_part_text(unseen)}",
        cause=cause,
        advice="see which of these calls has no partner: every rank must make the same calls in the same order, and "
        "every receive needs its send",
    )


def _are_the_same_calls(inspection: Inspection, calls: Mapping[int, Call]) -> bool:
    """Say whether ranks are at one line, or in branches of one `if` that make the same calls."""
    first, *others = calls.values()
    relations = [relate_calls(inspection, first, call) for call in others if line_of(call) != line_of(first)]
    return all(relation is not None and relation.fork is not None for relation in relations) and not any(
        relation.fork_calls_differ for relation in relations if relation is not None
    )


def _explain_messages(inspection: Inspection, stuck: Mapping[int, Call]) -> Explanation:
    calls = ranks_in_a_circle(inspection, stuck) or stuck
    behind = {rank: call for rank, call in stuck.items() if rank not in calls}
    families = {call.family for call in calls.values()}
    sends = families <= {Family.SEND}
    cause = Cause.RECEIVE_RECEIVE if families <= {Family.RECEIVE} else Cause.MESSAGE_ORDER
    to_themselves = all(_receiver(inspection, call) == rank for rank, call in calls.items())
    waits = verb(behind, "waits", "wait")
    others = f"; {name_ranks(behind)} {waits} for them: {_text(inspection, behind)}" if behind else ""
    return Explanation(
        ranks=tuple(sorted(calls)),
        summary=f"{name_ranks(calls)} {verb(calls, 'waits', 'wait')} for "
        f"{verb(calls, 'itself', 'themselves') if to_themselves else 'each other'}: {_text(inspection, calls)}{others}",
        cause=Cause.SEND_SEND if sends else cause,
        advice=_advice_of_messages(calls, families),
    )


def _advice_of_messages(calls: Mapping[int, Call], families: Set[Family]) -> str:
    is_torch = any(call.operation.startswith("torch.") for call in calls.values())
    exchange, post = ("batch_isend_irecv", "irecv") if is_torch else ("Sendrecv", "Irecv")
    if families <= {Family.SEND}:
        return f"let one side receive first, or use {exchange}, or post the receives ({post}) before the sends"
    if is_torch and all(call.request for call in calls.values()):  # a send may stand behind the wait, or be missing
        return (
            "post every send and receive before the first wait, as batch_isend_irecv does, and compare what ranks send "
            "with what they receive: every message needs both, with the same tag"
        )
    if Family.EXCHANGE in families:  # it is in use already
        return "let every exchange meet the exchange of its partner: name each other, in the same order, equally often"
    return f"let one side send first, or use {exchange}, or post receives ({post}) and wait for them together"


def _explain_unreceived(inspection: Inspection, calls: Mapping[int, Call]) -> Explanation | None:
    """Explain messages to ranks that have moved on to a collective and no longer receive."""
    senders: dict[int, int] = {}
    for rank, call in calls.items():
        receiver = _receiver(inspection, call) if call.family is Family.SEND else None
        if receiver is not None and receiver in calls and calls[receiver].is_collective:
            senders[rank] = receiver
    if not senders:
        return None
    odd, moved_on = _odd_ranks(calls), sorted(set(senders.values()))
    if set(odd) != senders.keys():  # unless they alone are out of line, it is the fewer of the two sides
        odd = minority([tuple(senders), tuple(moved_on)])
    theirs = _text(inspection, {rank: calls[rank] for rank in moved_on})
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(senders)} {verb(senders, 'is', 'are')} sending to {name_ranks(moved_on)} at "
        f"{sites_text(calls[rank] for rank in senders)}, but {name_ranks(moved_on)} {verb(moved_on, 'does', 'do')} "
        f"not receive: {theirs}",
        cause=Cause.SEND_WITHOUT_RECEIVE,
        advice=f"post a receive for every message before the {_names(calls, moved_on)}, or send after it: a receive "
        "takes one message, however large its buffer is; to collect from all ranks use Gather",
    )


def _receiver(inspection: Inspection, call: Call) -> int | None:
    known = inspection.communicator(call.communicator)
    return known.rank_of(call.peer) if known is not None else None


def _explain_unsent(inspection: Inspection, calls: Mapping[int, Call]) -> Explanation:
    """Explain receives, or waits, that nothing will satisfy, because the others are in a collective."""
    odd = _odd_ranks(calls)
    call = calls[odd[0]]
    if len(odd) == 1 and call.family in _RECEIVING:
        others = _text(inspection, {rank: other for rank, other in calls.items() if rank not in odd})
        place = f"{call_name(call)} at {call.site}"
        number = f"its {nth(call.at_site)} " if call.at_site else "" if not call.request else "the "
        waits = "waits for" if call.request else "waits in"  # a request is waited for elsewhere
        what = "to receive" if call.request else "for"
        return Explanation(
            ranks=odd,
            summary=f"{name_ranks(odd)} {waits} {number}{place} {what} a message from "
            f"{member_rank(inspection, call, call.peer)} with {tag_text(call.tag)}, which nobody sends: {others}",
            cause=Cause.RECEIVE_WITHOUT_SEND,
            advice=f"let the {place} have its send, or do without it: count the messages that are sent to "
            f"{name_ranks(odd)}, and those that it receives",
        )
    waiting = [rank for rank, other in calls.items() if not other.is_collective]
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(waiting)} {verb(waiting, 'waits', 'wait')} for a message that nobody sends: "
        f"{_text(inspection, calls)}",
        cause=Cause.RECEIVE_WITHOUT_SEND,
        advice="let every receive have its send, and every rank make the collective, in the same order",
    )


def _names(calls: Mapping[int, Call], ranks: Sequence[int]) -> str:
    """Name the first of the calls that ranks are in."""
    return f"{call_name(calls[ranks[0]])} at {calls[ranks[0]].site}"


def _odd_ranks(calls: Mapping[int, Call]) -> tuple[int, ...]:
    groups = group_ranks({rank: (call.operation, call.communicator) for rank, call in calls.items()})
    return minority([ranks for _, ranks in groups]) if len(groups) > 1 else tuple(sorted(calls))


def _text(inspection: Inspection, calls: Mapping[int, Call]) -> str:
    """Say who is in which call, for a few groups of ranks."""
    groups: Sequence[tuple[int, ...]] = [
        ranks
        for _, ranks in group_ranks(
            {
                rank: (call.operation, call.communicator, call.site, call.root, *call.peers, call.tag, call.source_tag)
                for rank, call in calls.items()
            }
        )
    ]
    texts = []
    for ranks in groups[:_MAX_GROUPS]:
        call = calls[ranks[0]]
        detail = call_detail(inspection, call)
        on = f" on {inspection.name(call.communicator)}" if call.is_collective else ""
        texts.append(
            f"{name_ranks(ranks)} in {call_name(call)}{on} at {call.site}" + (f" ({detail})" if detail else "")
        )
    more = f" and {len(groups) - _MAX_GROUPS} more" if len(groups) > _MAX_GROUPS else ""
    return ", ".join(texts) + more
