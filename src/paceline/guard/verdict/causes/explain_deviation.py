"""Why members went different ways: what they did, what is usual, and what the source says, in this order of trust.

Returns explanations, the likeliest first. Several of them means that several fit what is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import group_ranks
from paceline.guard.verdict.causes.call_counts import (
    explain_came_early,
    explain_clean_up,
    explain_left_out,
    explain_once_more,
    explain_passed_over,
    explain_unseen_left_out,
    is_another_order,
    left_out_by_most,
    left_out_by_odd,
    made_once_more_by_odd,
)
from paceline.guard.verdict.causes.call_of_one_side import explain_call_of_one_side
from paceline.guard.verdict.causes.conditional_call import (
    any_other_made,
    explain_call_under_condition,
    explain_fork,
)
from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.causes.held_back_gradients import advise_on_held_back
from paceline.guard.verdict.causes.library_loop import explain_library_loop
from paceline.guard.verdict.causes.recursion_depth import calls_itself, explain_depth
from paceline.guard.verdict.causes.uneven_loop import advise_on_loop, explain_left_early, explain_stayed_longer
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import Line, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.passed_over import (
    can_be_left_out,
    can_be_left_out_of,
    can_be_made_again,
    can_be_passed_without_exception,
    can_end_early,
    counts_steps,
    is_led_to_by_method,
    is_told_to_pass_over,
    may_be_held_back,
    may_come_after_several_rounds,
)
from paceline.guard.verdict.source.related_lines import is_loop_of_steps, names_a_rank, relate_calls
from paceline.guard.verdict.source.user_source import LineRelation, SourceBlock
from paceline.guard.verdict.wording import call_name, call_place, name_ranks, verb


def explain_deviation(inspection: Inspection, deviation: Deviation) -> list[Explanation]:
    """Explain the two sides of a first difference."""
    explanations = _explain_sides(inspection, deviation)
    return [advise_on_held_back(inspection, deviation, explanation) for explanation in explanations]


def _explain_sides(inspection: Inspection, deviation: Deviation) -> list[Explanation]:
    if _are_on_two_sides(inspection, deviation):
        return [_explain_difference(deviation)]  # each side has calls of its own: no line had to lead both to one
    depth = explain_depth(deviation)
    if depth is not None:
        return [depth]
    relation = relate_calls(inspection, deviation.usual_call, deviation.odd_call)
    has_one_order = relation is not None and relation.fork is None  # the lines of a function, but for branches of an if
    if is_another_order(deviation) and not has_one_order:
        return [_explain_order(deviation)]
    by_exception = _by_exception(inspection, deviation, relation)
    if by_exception is not None:
        return [by_exception]
    in_library = explain_library_loop(deviation)
    if in_library is not None:
        return [in_library]
    return (
        _by_what_was_done(inspection, deviation, relation)
        or (_by_source(inspection, deviation, relation) if relation is not None else [])
        or (_by_other_side(inspection, deviation) if deviation.is_tie else [])
        or _came_alone(inspection, deviation, relation)
    )


def _came_alone(inspection: Inspection, deviation: Deviation, relation: LineRelation | None) -> list[Explanation]:
    """Explain by what is left where neither the past nor the source tells why ranks went different ways."""
    early = _came_early(deviation, relation)
    if early is not None:
        return [early]
    return explain_call_of_one_side(inspection, deviation, relation) or [_explain_difference(deviation)]


def _by_exception(inspection: Inspection, deviation: Deviation, relation: LineRelation | None) -> Explanation | None:
    """Explain a call of the odd ranks in an `except`, or in a `finally` to which nothing else can have led them."""
    block = relation.second_clean_up if relation is not None else None
    if block is None or relation is None:
        return None
    usual, odd = deviation.usual_call, deviation.odd_call
    if block.head == "finally" and can_be_passed_without_exception(inspection, usual, odd):
        return None
    return explain_clean_up(deviation, block, relation.file)


def _by_other_side(inspection: Inspection, deviation: Deviation) -> list[Explanation]:
    """Explain two sides of which nothing tells who is right, seen from the other one."""
    mirrored = deviation.mirrored()
    relation = relate_calls(inspection, mirrored.usual_call, mirrored.odd_call)
    return _by_source(inspection, mirrored, relation) if relation is not None else []


def _are_on_two_sides(inspection: Inspection, deviation: Deviation) -> bool:
    """Say whether those who differ are one side of an intercommunicator, and the others are the other side."""
    known = inspection.communicator(deviation.usual_call.communicator)
    if known is None or not known.num_first or deviation.is_across:
        return False
    others = known.other_side(deviation.usual[0])
    return set(deviation.odd) <= set(others) and not set(deviation.usual) & set(others)


def _by_what_was_done(inspection: Inspection, deviation: Deviation, relation: LineRelation | None) -> list[Explanation]:
    """Explain by the calls that one side made and the other did not: the fewer of them, the likelier."""
    left_out, extra = left_out_by_odd(deviation), made_once_more_by_odd(deviation)
    if left_out and extra:  # both fit what was done; the source may rule one of them out
        usual, odd = deviation.usual_call, deviation.odd_call
        may_repeat, may_leave_out = can_be_made_again(inspection, odd, usual), can_be_left_out(inspection, usual, odd)
        left_out = left_out if may_leave_out or not may_repeat else None
        extra = extra if may_repeat or not may_leave_out else None
    elif left_out and not can_be_left_out(inspection, deviation.usual_call, deviation.odd_call):
        early = _came_early(deviation, relation)
        if early is not None:
            return [early]
        if can_be_made_again(inspection, deviation.odd_call, deviation.usual_call):
            return _more_calls(inspection, deviation, relation, [line_of(deviation.odd_call)])
    elif left_out is None and (by_most := left_out_by_most(deviation)) is not None:
        if can_be_left_out(inspection, deviation.odd_call, deviation.usual_call):
            by_most_ranks = [explain_left_out(deviation.mirrored(), by_most)]
            again = line_of(deviation.odd_call)
            # one earlier call tells little: it may be one that is made once
            may_repeat = can_be_made_again(inspection, deviation.odd_call, deviation.usual_call)
            is_rare = deviation.past.count(again) == 1 and may_repeat
            return (_more_calls(inspection, deviation, relation, [again]) if is_rare else []) + by_most_ranks
    elif extra and _may_have_passed_over(inspection, deviation):
        return []  # a call made again, or one that was passed over: the source is asked
    elif extra and _may_be_another_method(inspection, deviation):
        return [explain_passed_over(deviation), *_more_calls(inspection, deviation, relation, extra)]
    fewer = _fewer_calls(inspection, deviation, relation, left_out) if left_out else []
    more = _more_calls(inspection, deviation, relation, extra) if extra else []
    if left_out and extra and len(extra) < len(left_out):
        return more  # rather one call too many than a whole round too few
    return fewer + more if left_out and extra and len(extra) == len(left_out) else fewer or more


def _may_have_passed_over(inspection: Inspection, deviation: Deviation) -> bool:
    """Say whether the odd ranks may have come to the next round without a call that is new to all, or nothing else."""
    usual, odd = deviation.usual_call, deviation.odd_call
    is_new = not any_other_made(inspection, usual, deviation.usual) and line_of(usual) not in deviation.past
    is_alone = is_new or not can_be_made_again(inspection, odd, usual)
    return is_alone and can_be_left_out(inspection, usual, odd)


def _may_be_another_method(inspection: Inspection, deviation: Deviation) -> bool:
    """Say whether the others made a call that is new to all in a method, of which odd ranks may have another."""
    usual = deviation.usual_call
    is_new = not any_other_made(inspection, usual, deviation.usual) and line_of(usual) not in deviation.past
    return is_new and is_led_to_by_method(inspection, usual, deviation.odd_call)


def _came_early(deviation: Deviation, relation: LineRelation | None) -> Explanation | None:
    """Explain a call under an `if` that odd ranks come to before others, where the call before it cannot be skipped."""
    condition = relation.second_condition if relation is not None else None
    if condition is None or relation is None or relation.first_loop is not None:
        return None
    return explain_came_early(deviation, condition, relation.file)


def _fewer_calls(
    inspection: Inspection, deviation: Deviation, relation: LineRelation | None, left_out: Sequence[Line]
) -> list[Explanation]:
    skipped = explain_left_out(deviation, left_out)
    condition = relation.first_condition if relation is not None else None
    if relation is not None and condition is not None:
        alone = explain_call_under_condition(inspection, deviation, condition, relation.file, of_odd=False)
        if alone is not None and not counts_steps(condition.head, relation.loop_variables):
            return [alone]
    loop = relation.first_loop if relation is not None else None
    if relation is None or loop is None or len(set(left_out)) > 1:
        return [skipped]
    return _left_early_or_out(inspection, deviation, relation, loop, skipped)


def _left_early_or_out(
    inspection: Inspection, deviation: Deviation, relation: LineRelation, loop: SourceBlock, skipped: Explanation
) -> list[Explanation]:
    """Explain odd ranks that have left an inner loop early, or left out one of its calls: both look the same."""
    call, file = deviation.usual_call, relation.file
    early, may_skip = _explain_end_of_loop(inspection, deviation, relation, loop, of_odd=False)
    if early is None:
        return [skipped] if can_be_left_out(inspection, call, deviation.odd_call) else []
    if not may_skip:
        return [early]
    is_skip = is_told_to_pass_over(inspection, call, loop, file) or not is_loop_of_steps(loop)
    is_skip = is_skip or may_be_held_back(inspection, call)
    return [skipped, early] if is_skip else [early, skipped]


def _explain_end_of_loop(
    inspection: Inspection, deviation: Deviation, relation: LineRelation, loop: SourceBlock, *, of_odd: bool
) -> tuple[Explanation | None, bool]:
    """Explain a loop that only one side is still in, unless it cannot end early; and say if its call may be skipped."""
    sides = deviation.mirrored() if of_odd else deviation
    call, after, explain = sides.usual_call, sides.odd_call, explain_stayed_longer if of_odd else explain_left_early
    may_skip = can_be_left_out_of(inspection, call, loop, relation.file) or may_be_held_back(inspection, call)
    left = _loop_that_was_left(inspection, sides, relation, loop)
    if left is None or calls_itself(call):
        return None, may_skip
    call, loop, file = left
    ends_early = can_end_early(inspection, call, loop, file)
    if not ends_early or may_come_after_several_rounds(inspection, after, call):
        return None, may_skip  # calls since the last of those after the loop need not be of one pass through it
    advice = advise_on_loop(inspection, call, loop, file)
    return explain(deviation, loop, file, in_steps=not may_skip, advice=advice), may_skip


def _loop_that_was_left(
    inspection: Inspection, sides: Deviation, relation: LineRelation, loop: SourceBlock
) -> tuple[Call, SourceBlock, str] | None:
    """Return the loop that the odd ranks have left: their own, if they make the call of the others at another line."""
    call = sides.usual_call
    state = inspection.state(sides.odd[0]) if call.role else None
    own = [past for past in (state.history if state is not None else ()) if line_of(past) == line_of(call)]
    if not own or own[-1].site == call.site:
        return call, loop, relation.file
    theirs = relate_calls(inspection, own[-1], sides.odd_call)
    if theirs is None or theirs.first_loop is None:
        return None
    return own[-1], theirs.first_loop, theirs.file


def _more_calls(
    inspection: Inspection, deviation: Deviation, relation: LineRelation | None, extra: Sequence[Line]
) -> list[Explanation]:
    condition = relation.second_condition if relation is not None else None
    once_more = explain_once_more(deviation, condition, relation.file if relation is not None else "")
    if relation is not None and condition is not None:  # a call that no other rank makes is told by its condition
        alone = explain_call_under_condition(inspection, deviation, condition, relation.file, of_odd=True)
        is_again = deviation.past[-1:] == (line_of(deviation.odd_call),)
        if alone is None and not is_again and counts_steps(condition.head, relation.loop_variables):
            alone = _came_early(deviation, relation)
        if alone is not None:
            return [alone]
    loop = relation.second_loop if relation is not None else None
    if relation is None or loop is None or len(set(extra)) > 1:
        return [once_more]
    return _stayed_or_repeated(inspection, deviation, relation, loop, once_more)


def _stayed_or_repeated(
    inspection: Inspection, deviation: Deviation, relation: LineRelation, loop: SourceBlock, once_more: Explanation
) -> list[Explanation]:
    """Explain odd ranks that are in a loop that the others have left."""
    longer, may_skip = _explain_end_of_loop(inspection, deviation, relation, loop, of_odd=True)
    if longer is None:
        return [once_more]
    if not is_loop_of_steps(loop) or may_be_held_back(inspection, deviation.odd_call):
        return [once_more, longer]
    return [longer, once_more] if may_skip else [longer]


def _by_source(inspection: Inspection, deviation: Deviation, relation: LineRelation) -> list[Explanation]:
    file = relation.file
    if relation.fork is not None:
        return [explain_fork(deviation, relation.fork, file, calls_differ=relation.fork_calls_differ)]
    conditions = ((relation.second_condition, True), (relation.first_condition, False))  # of the odd side, of the usual
    alone = [
        (condition, explanation)
        for condition, of_odd in conditions
        if condition is not None
        and (explanation := explain_call_under_condition(inspection, deviation, condition, file, of_odd=of_odd))
    ]
    by_rank = [explanation for condition, explanation in alone if names_a_rank(condition)]
    if by_rank:
        return by_rank
    by_step = [reason for condition, reason in alone if counts_steps(condition.head, relation.loop_variables)]
    by_data = [explanation for _, explanation in alone if explanation not in by_step]
    unseen = explain_unseen_left_out(deviation)
    uneven = _by_loops(inspection, deviation, relation, unseen)
    if alone and uneven == [unseen]:
        uneven = []
    # the odd ranks may have come to their call without one that stands above it
    is_told = any(condition is relation.first_condition for condition, _ in alone)
    may_skip = not is_told and can_be_left_out(inspection, deviation.usual_call, deviation.odd_call)
    skipped = [unseen] if relation.first_loop is None and relation.first_is_above and may_skip else []
    if may_skip and relation.share_a_loop and not relation.first_is_above:
        skipped = [explain_passed_over(deviation)]
    return list(dict.fromkeys([*by_data, *uneven, *skipped, *by_step]))


def _by_loops(
    inspection: Inspection, deviation: Deviation, relation: LineRelation, unseen: Explanation
) -> list[Explanation]:
    """Explain a loop that one side is in and the other has left; if both are in one, that in which all were last."""
    last = deviation.past[-1] if deviation.past else None
    of_usual, of_odd = relation.first_loop, relation.second_loop
    if of_usual is not None and (of_odd is None or last == line_of(deviation.usual_call)):
        return _left_early_or_out(inspection, deviation, relation, of_usual, unseen)
    if of_odd is not None and line_of(deviation.odd_call) in deviation.past:
        once_more = explain_once_more(deviation, relation.second_condition, relation.file)
        may_repeat = can_be_made_again(inspection, deviation.odd_call, deviation.usual_call)
        if may_repeat and (of_usual is None or last == line_of(deviation.odd_call)):
            return _stayed_or_repeated(inspection, deviation, relation, of_odd, once_more)
    return []


def _explain_order(deviation: Deviation) -> Explanation:
    odd, usual = deviation.odd, deviation.usual
    one, other = deviation.usual_call, deviation.odd_call
    return Explanation(
        ranks=deviation.out_of_line,
        summary=f"{name_ranks(odd)} {verb(odd, 'calls', 'call')} {call_name(other)} {deviation.place(other)} before "
        f"{call_name(one)} {deviation.place(one)}; {name_ranks(usual)} {verb(usual, 'calls', 'call')} them the other "
        "way round",
        cause=Cause.CALL_ORDER,
        advice="let every rank make the same calls in the same order",
    )


def _explain_difference(deviation: Deviation) -> Explanation:
    """Say what differs, and no more, where nothing tells why."""
    one, other = deviation.usual_call, deviation.odd_call
    places = {
        rank: (call_name(call), call_place(call, other if rank in deviation.usual else one))
        for rank, call in deviation.calls.items()
    }
    texts = ", ".join(
        f"{name_ranks(ranks)} {verb(ranks, 'calls', 'call')} {name} {place}"
        for (name, place), ranks in group_ranks(places)
    )
    odd = deviation.out_of_line
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(odd)} {verb(odd, 'differs', 'differ')}: {texts}"
        if deviation.is_tie
        else f"{name_ranks(odd)} fell out of line: {texts}",
        cause=Cause.DIFFERENT_COLLECTIVES,
        advice=f"find the condition or the loop that leads {name_ranks(deviation.odd)} to the "
        f"{call_name(other)} {deviation.place(other)} while the others come to the {call_name(one)} "
        f"{deviation.place(one)}: all must make the same calls",
    )
