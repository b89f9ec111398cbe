"""Sizes that differ at one line: whether one rank has left out a call that the others make there, or made it in turn.

A loop over tensors of different sizes makes the same sizes in the same order, round after round. What a rank brings now
may be what the others bring next. A size that the others have brought to this line before, and do not bring now, is of
another tensor, not of a longer batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.errors import group_ranks
from paceline.guard.verdict.causes.habit import calls_left_out
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Position
from paceline.guard.verdict.source.passed_over import may_be_left_out_of_a_round
from paceline.guard.verdict.source.related_lines import goes_through_tensors
from paceline.guard.verdict.wording import call_name, name_rank, name_ranks, size_text, verb

SAME_TENSORS = (
    "let every rank come to the call at {site} with the same tensors in the same order (a dict, a set or a list of "
    "files may have another order on another rank)"
)
_SizedLine = tuple[object, ...]
_Ranks = tuple[int, ...]


def _sized_line(call: Call) -> _SizedLine:
    return (*line_of(call), call.num_bytes, call.dtype)


def explain_sizes(inspection: Inspection, position: Position, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain sizes that differ at the same line, if earlier rounds tell why; otherwise nothing."""
    sides = group_ranks({rank: _sized_line(call) for rank, call in calls.items()})
    if len(sides) != 2:
        return []
    (usual, usual_ranks), (odd, odd_ranks) = sides
    past_calls = inspection.collectives(usual_ranks[0], position.communicator)
    past = [_sized_line(past_calls[at]) for at in sorted(past_calls) if at < position.sequence]
    ties = len(usual_ranks) == len(odd_ranks)
    left_out = calls_left_out(past, usual, odd)
    if left_out is None and ties:
        usual, usual_ranks, odd, odd_ranks = odd, odd_ranks, usual, usual_ranks
        left_out = calls_left_out(past, usual, odd)
    if left_out:  # a rank that goes through its tensors in another order has come as far
        skipped = _explain_left_out(calls, usual_ranks, odd_ranks, why=", as comes after it in earlier rounds")
        order = _explain_order(calls, usual_ranks, odd_ranks)
        return (
            [skipped, order] if len(left_out) == 1 else [order, skipped]
        )  # rather another order than several left out
    if odd not in past or ties:
        return _explain_by_what_follows(inspection, position, calls, sides)
    order, again = _explain_order(calls, usual_ranks, odd_ranks), _explain_again(calls, usual_ranks, odd_ranks)
    if odd == past[0] and odd not in past[1:] and len(past) > 1:  # rather the next round than another order
        return [_explain_left_out(calls, usual_ranks, odd_ranks, why=", with which all ranks began"), order]
    if odd != past[-1]:
        return [order]
    if usual in past:
        return [order, again]  # an order shows in tensors that have come before
    if may_be_left_out_of_a_round(inspection, calls[odd_ranks[0]]):  # its next tensor may have the size of the last one
        return [_explain_left_out(calls, usual_ranks, odd_ranks), again, order]
    return [again, order]


def brings_several_tensors(inspection: Inspection, position: Position, calls: Mapping[int, Call]) -> bool:
    """Say whether a line makes its call for several tensors, by what it has brought so far or by its loop.

    If most ranks bring another size now than before, sizes of this line change by themselves.
    """
    brought = {rank: _brought_before(inspection, position, rank, call) for rank, call in calls.items()}
    num_changed = sum(bool(brought[rank]) and _tensor(call) not in brought[rank] for rank, call in calls.items())
    return (
        len(set().union(*brought.values())) > 1
        or 2 * num_changed > len(calls)
        or any(goes_through_tensors(inspection, call) for call in calls.values())
    )


def _tensor(call: Call) -> tuple[int, str, str]:
    return (call.num_bytes, call.dtype, call.reduction)


def _brought_before(inspection: Inspection, position: Position, rank: int, call: Call) -> set[tuple[int, str, str]]:
    """Return what a rank has brought to the line of a call before."""
    past = inspection.collectives(rank, position.communicator)
    return {_tensor(past[at]) for at in past if at < position.sequence and line_of(past[at]) == line_of(call)}


def _explain_left_out(
    calls: Mapping[int, Call], usual_ranks: Sequence[int], odd_ranks: Sequence[int], *, why: str = ""
) -> Explanation:
    call, next_call = calls[usual_ranks[0]], calls[odd_ranks[0]]
    name = f"{call_name(call)} of {size_text(call)} at {call.site}"
    return Explanation(
        ranks=tuple(odd_ranks),
        summary=f"{name_ranks(odd_ranks)} left out the {name}: {verb(odd_ranks, 'it brings', 'they bring')} "
        f"{size_text(next_call)}{why}, where {name_ranks(usual_ranks)} "
        f"{verb(usual_ranks, 'brings', 'bring')} {size_text(call)}",
        cause=Cause.SKIPPED_CALL,
        advice=f"find out why {name_ranks(odd_ranks)} left out the {name} (a tensor without a gradient, a caught "
        "exception, a condition that only some ranks meet): every rank must make it, with zeros if it has nothing "
        "to add",
    )


def _explain_again(calls: Mapping[int, Call], usual_ranks: Sequence[int], odd_ranks: Sequence[int]) -> Explanation:
    """Explain a size that was just brought."""
    call, theirs = calls[usual_ranks[0]], calls[odd_ranks[0]]
    name = f"{call_name(theirs)} of {size_text(theirs)} at {theirs.site}"
    return Explanation(
        ranks=tuple(odd_ranks),
        summary=f"{name_ranks(odd_ranks)} {verb(odd_ranks, 'makes', 'make')} the {name} again, where "
        f"{name_ranks(usual_ranks)} {verb(usual_ranks, 'brings', 'bring')} {size_text(call)}",
        cause=Cause.EXTRA_CALL,
        advice=f"let every rank make the {name} the same number of times: look for a hook that was set twice, for a "
        f"retry, or for a condition that is true on {name_ranks(odd_ranks)} alone",
    )


def _explain_order(calls: Mapping[int, Call], usual_ranks: Sequence[int], odd_ranks: Sequence[int]) -> Explanation:
    """Explain a size that all have brought before, of which nothing tells what comes after what."""
    call, theirs = calls[usual_ranks[0]], calls[odd_ranks[0]]
    return Explanation(
        ranks=tuple(odd_ranks),
        summary=f"{name_ranks(odd_ranks)} {verb(odd_ranks, 'brings', 'bring')} {size_text(theirs)} to the "
        f"{call_name(call)} at {call.site}, where {name_ranks(usual_ranks)} {verb(usual_ranks, 'brings', 'bring')} "
        f"{size_text(call)}; all ranks have brought {size_text(theirs)} there before, so {name_ranks(odd_ranks)} may "
        f"come to {verb(odd_ranks, 'its', 'their')} tensors in another order",
        cause=Cause.CALL_ORDER,
        advice=SAME_TENSORS.format(site=call.site),
    )


def _explain_by_what_follows(
    inspection: Inspection, position: Position, calls: Mapping[int, Call], sides: Sequence[tuple[_SizedLine, _Ranks]]
) -> list[Explanation]:
    """Explain what some bring now and others, who have gone on, brought at the same line later.

    So it is in the first round, or where there are no rounds: a loop over tensors that ranks go through differently.
    """
    (one, ones), (other, others) = sides
    found = next(
        (
            (ranks, early, ahead)
            for size, ranks, ahead in ((other, others, ones), (one, ones, others))
            if (early := _brought_later(inspection, position, ahead, size)) is not None
        ),
        None,
    )
    if found is None or one[:-2] != other[:-2]:
        return []
    odd, (rank, later), ahead = found
    call, theirs = calls[odd[0]], calls[ahead[0]]
    if _has_brought_one_size(inspection, position, ahead[0], theirs):
        return []  # the others have come to a larger batch since, and this rank sooner
    if _has_brought_one_size(inspection, position, ahead[0], call):
        return []  # it brought another size once, and then again what all have brought so far
    place = f"{call_name(call)} at {call.site}"
    brings = (
        f"{name_ranks(odd)} {verb(odd, 'brings', 'bring')} {size_text(call)} to the {place} where {name_ranks(ahead)} "
        f"{verb(ahead, 'brings', 'bring')} {size_text(theirs)} ({inspection.text(position)}); {size_text(later)} came "
        f"from {name_rank(rank)} in call {later.sequence}"
    )
    ranks = odd if len(odd) < len(ahead) else tuple(sorted([*odd, *ahead]))
    return [
        Explanation(
            ranks=ranks,
            summary=f"{brings}: ranks go through them in different orders",
            cause=Cause.CALL_ORDER,
            advice=f"let every rank come to the {place} with the same things in the same order: sort names before the "
            "loop; the order of a set or of a folder differs between processes",
        ),
        Explanation(
            ranks=ranks,
            summary=f"{brings}: {name_ranks(odd)} left out what comes before it",
            cause=Cause.SKIPPED_CALL,
            advice=f"find out whether {name_ranks(odd)} left out the {call_name(theirs)} of {size_text(theirs)} at "
            f"{theirs.site}: every rank must make it, with zeros if it has nothing to add",
        ),
    ]


def _has_brought_one_size(inspection: Inspection, position: Position, rank: int, call: Call) -> bool:
    """Say whether a rank has brought nothing else to this line before: so it is not one tensor after the other."""
    past = inspection.collectives(rank, position.communicator)
    earlier = [past[at] for at in past if at < position.sequence and line_of(past[at]) == line_of(call)]
    return bool(earlier) and all(_sized_line(before) == _sized_line(call) for before in earlier)


def _brought_later(
    inspection: Inspection, position: Position, ahead: Sequence[int], size: _SizedLine
) -> tuple[int, Call] | None:
    """Return who of these ranks brought such a size first after a position, and by which call."""
    for rank in ahead:
        past = inspection.collectives(rank, position.communicator)
        later = [past[at] for at in sorted(past) if at > position.sequence]
        found = next((call for call in later if _sized_line(call) == size), None)
        if found is not None:
            return rank, found
    return None
