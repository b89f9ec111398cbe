"""The rule of deadlocks: live ranks that can never move again. Who they are: stuck_ranks.py; here is why, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.errors import group_ranks
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.causes.deviation import find_deviation
from paceline.guard.verdict.causes.explain_deviation import explain_deviation
from paceline.guard.verdict.causes.own_history import explain_missing_member, explain_missing_send
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingField, FindingKind, explained_finding
from paceline.guard.verdict.first_difference import DifferingCalls, find_first_difference, shown_difference
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.rules.mismatch import minority
from paceline.guard.verdict.snapshot import Call, Position
from paceline.guard.verdict.waited_for import first_unmet
from paceline.guard.verdict.wording import call_detail, call_name, name_ranks, sites_text, verb

_MAX_GROUPS = 4  # groups of ranks that a sentence names


def find_deadlock(inspection: Inspection, stuck: frozenset[int]) -> Finding:
    """Return the finding about ranks that can never move, and that no other rule explains."""
    position = _latest_position(inspection, stuck)
    differing = find_first_difference(inspection, position) if position is not None else None
    calls = _unmet_calls(inspection, stuck)
    families = {call.family for call in calls.values()}
    explanations: list[Explanation] = []
    field = None
    if families == {Family.COLLECTIVE}:
        explanations = _explain_collectives(inspection, calls, differing)
        field = FindingField.COMMUNICATOR if explanations[0].cause is Cause.CALL_ORDER else None
    else:
        explanations = explain_missing_send(inspection, calls)
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
    return explain_missing_member(inspection, calls) or [
        Explanation(
            ranks=_odd_ranks(calls),
            summary=f"{name_ranks(calls)} wait for each other on different communicators: {_text(inspection, calls)}",
            cause=Cause.CALL_ORDER,
            advice="use communicators in the same order on every rank",
        )
    ]


def _explain_messages(inspection: Inspection, calls: Mapping[int, Call]) -> Explanation:
    families = {call.family for call in calls.values()}
    sends = families <= {Family.SEND}
    cause = Cause.RECEIVE_RECEIVE if families <= {Family.RECEIVE} else Cause.MESSAGE_ORDER
    return Explanation(
        ranks=tuple(sorted(calls)),
        summary=f"{name_ranks(calls)} {verb(calls, 'waits', 'wait')} for "
        f"{'itself' if len(calls) == 1 else 'each other'}: {_text(inspection, calls)}",
        cause=Cause.SEND_SEND if sends else cause,
        advice="let one side receive first, or use Sendrecv, or post the receives (Irecv) before the sends"
        if sends
        else "let one side send first, or use Sendrecv, or post receives (Irecv) and wait for them together",
    )


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
        f"{sites_text(calls[rank] for rank in senders)}, but {name_ranks(moved_on)} {verb(moved_on, 'has', 'have')} "
        f"stopped receiving: {theirs}",
        cause=Cause.SEND_WITHOUT_RECEIVE,
        advice="post a receive for every message: a receive takes one, however large its buffer is; to collect from "
        "all ranks use Gather",
    )


def _receiver(inspection: Inspection, call: Call) -> int | None:
    known = inspection.communicator(call.communicator)
    return known.rank_of(call.peer) if known is not None else None


def _explain_unsent(inspection: Inspection, calls: Mapping[int, Call]) -> Explanation:
    """Explain receives, or waits, that nothing will satisfy, because the others are in a collective."""
    odd = _odd_ranks(calls)
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(odd)} fell out of line: {_text(inspection, calls)}",
        cause=Cause.RECEIVE_WITHOUT_SEND,
        advice="let every receive have its send, and every rank make the collective, in the same order",
    )


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
