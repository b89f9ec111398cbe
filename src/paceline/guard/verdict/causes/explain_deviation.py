"""Why members went different ways: what they did, what is usual, and what the source says, in this order of trust.

Returns explanations, the likeliest first. Several of them means that several fit what is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import group_ranks
from paceline.guard.verdict.causes.call_counts import (
    explain_left_out,
    explain_once_more,
    explain_unseen_left_out,
    is_another_order,
    left_out_by_odd,
    made_once_more_by_odd,
)
from paceline.guard.verdict.causes.conditional_call import explain_call_under_condition, explain_fork
from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.causes.related_lines import is_loop_of_steps, names_a_rank, relate_calls
from paceline.guard.verdict.causes.uneven_loop import explain_left_early, explain_stayed_longer
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import Line
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.user_source import LineRelation
from paceline.guard.verdict.wording import call_name, call_place, name_ranks, verb


def explain_deviation(inspection: Inspection, deviation: Deviation) -> list[Explanation]:
    """Explain the two sides of a first difference."""
    relation = relate_calls(inspection, deviation.usual_call, deviation.odd_call)
    if is_another_order(deviation):
        return [_explain_order(deviation)]
    return (
        _by_what_was_done(inspection, deviation, relation)
        or (_by_source(inspection, deviation, relation) if relation is not None else [])
        or [_explain_difference(deviation)]
    )


def _by_what_was_done(inspection: Inspection, deviation: Deviation, relation: LineRelation | None) -> list[Explanation]:
    """Explain by the calls that one side made and the other did not: the fewer of them, the likelier."""
    left_out, extra = left_out_by_odd(deviation), made_once_more_by_odd(deviation)
    fewer = _fewer_calls(inspection, deviation, relation, left_out) if left_out else []
    more = _more_calls(inspection, deviation, relation, extra) if extra else []
    if left_out and extra and len(extra) < len(left_out):
        return more  # rather one call too many than a whole round too few
    return fewer + more if left_out and extra and len(extra) == len(left_out) else fewer or more


def _fewer_calls(
    inspection: Inspection, deviation: Deviation, relation: LineRelation | None, left_out: Sequence[Line]
) -> list[Explanation]:
    skipped = explain_left_out(deviation, left_out)
    condition = relation.first_condition if relation is not None else None
    if relation is not None and condition is not None and names_a_rank(condition):
        alone = explain_call_under_condition(inspection, deviation, condition, relation.file, of_odd=False)
        if alone is not None:
            return [alone]
    loop = relation.first_loop if relation is not None else None
    if relation is None or loop is None or len(set(left_out)) > 1:
        return [skipped]
    # the odd ranks have left an inner loop early, or left out one of its calls: both look the same
    early = explain_left_early(deviation, loop, relation.file)
    if early is None:
        return [skipped]
    return [early, skipped] if is_loop_of_steps(loop) else [skipped, early]


def _more_calls(
    inspection: Inspection, deviation: Deviation, relation: LineRelation | None, extra: Sequence[Line]
) -> list[Explanation]:
    once_more = explain_once_more(deviation, extra)
    condition = relation.second_condition if relation is not None else None
    if relation is not None and condition is not None:  # a call that no other rank makes is told by its condition
        alone = explain_call_under_condition(inspection, deviation, condition, relation.file, of_odd=True)
        if alone is not None:
            return [alone]
    loop = relation.second_loop if relation is not None else None
    if relation is None or loop is None or len(set(extra)) > 1:
        return [once_more]
    longer = explain_stayed_longer(deviation, loop, relation.file)
    if longer is None:
        return [once_more]
    return [longer, once_more] if is_loop_of_steps(loop) else [once_more, longer]


def _by_source(inspection: Inspection, deviation: Deviation, relation: LineRelation) -> list[Explanation]:
    file = relation.file
    if relation.fork is not None:
        return [explain_fork(deviation, relation.fork, file, calls_differ=relation.fork_calls_differ)]
    conditions = ((relation.second_condition, True), (relation.first_condition, False))  # of the odd side, of the usual
    by_rank = [
        explain_call_under_condition(inspection, deviation, condition, file, of_odd=of_odd)
        for condition, of_odd in conditions
        if condition is not None and names_a_rank(condition)
    ]
    explanations: list[Explanation | None] = [*by_rank]
    if relation.first_loop is not None and relation.second_loop is None:
        explanations.append(explain_left_early(deviation, relation.first_loop, file))
    elif relation.second_loop is not None and relation.first_loop is None:
        explanations.append(explain_stayed_longer(deviation, relation.second_loop, file))
    if not any(by_rank):
        # the odd ranks may have come to their call without one that stands above it in the same loop
        if relation.share_a_loop and relation.first_is_above:
            explanations.append(explain_unseen_left_out(deviation))
        explanations += [
            explain_call_under_condition(inspection, deviation, condition, file, of_odd=of_odd)
            for condition, of_odd in conditions
            if condition is not None and not names_a_rank(condition)
        ]
    return [explanation for explanation in explanations if explanation is not None]


def _explain_order(deviation: Deviation) -> Explanation:
    odd, usual = deviation.odd, deviation.usual
    one, other = deviation.usual_call, deviation.odd_call
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} {verb(odd, 'calls', 'call')} {call_name(other)} {call_place(other, one)} before "
        f"{call_name(one)} {call_place(one, other)}; {name_ranks(usual)} {verb(usual, 'calls', 'call')} them the other "
        "way round",
        cause=Cause.CALL_ORDER,
        advice="let every rank make the same calls in the same order",
    )


def _explain_difference(deviation: Deviation) -> Explanation:
    """Say what differs, and no more, where nothing tells why."""
    calls = dict.fromkeys(deviation.usual, deviation.usual_call) | dict.fromkeys(deviation.odd, deviation.odd_call)
    groups = group_ranks({rank: (call_name(call), call.site) for rank, call in calls.items()})
    texts = ", ".join(
        f"{name_ranks(ranks)} {verb(ranks, 'calls', 'call')} {name} at {site}" for (name, site), ranks in groups
    )
    odd = deviation.out_of_line
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(odd)} {verb(odd, 'differs', 'differ')}: {texts}"
        if deviation.is_tie
        else f"{name_ranks(odd)} fell out of line: {texts}",
        cause=Cause.DIFFERENT_COLLECTIVES,
        advice=f"find the condition or the loop that leads {name_ranks(deviation.odd)} to the "
        f"{call_name(deviation.odd_call)} at {deviation.odd_call.site} while the others come to the "
        f"{call_name(deviation.usual_call)} at {deviation.usual_call.site}: all must make the same calls",
    )
