"""The rule of arguments: a rank, root or tag that does not exist, or memory beyond a window. One rank suffices."""

from __future__ import annotations

from paceline.guard.shared_memory.layout import ANY, NOBODY, NOTHING, STOP_ARGUMENT
from paceline.guard.shared_memory.nobody import FARTHEST, decode_outsider
from paceline.guard.shared_memory.operations import Family
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingField, FindingKind, explained_finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.member_numbers import LEFT_OUT
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, Membership, RankState
from paceline.guard.verdict.wording import call_name, member_rank, name_ranks, verb

_NAMES = {FindingField.ROOT: "a root", FindingField.SOURCE: "a rank", FindingField.TAG: "a tag"}


def find_argument(inspection: Inspection) -> Finding | None:
    """Find ranks that named a peer, root or tag that does not exist, and stopped or died of it."""
    wrong_calls: dict[int, Call] = {}
    has_failed = False
    for state in inspection.states():
        call = _suspect(state)
        has_failed = (
            has_failed or state.stop is not None or (state.end is not None and state.end.failed_call is not None)
        )
        if call is not None and wrong_argument(inspection, call) is not None:
            wrong_calls[state.rank] = call
    if not wrong_calls or not has_failed:
        return None
    call = next(iter(wrong_calls.values()))
    field = wrong_argument(inspection, call)
    assert field is not None
    explanation = _explain(inspection, wrong_calls, call, field)
    return explained_finding(FindingKind.ARGUMENT, explanation, rank_groups(inspection), field=field)


def _suspect(state: RankState) -> Call | None:
    """Return the call that a rank has stopped at, died of, or failed in."""
    if state.stop is not None and state.stop.reason == STOP_ARGUMENT:
        return state.stop.call
    if state.end is not None and state.end.failed_call is not None:
        return state.call(state.end.failed_call)
    # it may still be caught, but if another rank died of it, it is as wrong here
    return state.history[-1] if state.history and state.history[-1].failed else None


def wrong_argument(inspection: Inspection, call: Call) -> FindingField | None:
    """Return which argument of a call names something that does not exist."""
    known = inspection.communicator(call.communicator)
    if known is None or call.family is Family.WAIT:
        return None
    if call.family is Family.ACCESS:  # it is recorded only if it reaches too far
        return FindingField.COUNT
    if call.is_collective:
        is_wrong = call.traits.rooted and call.root != NOTHING and _does_not_exist(known, call.root)
        return FindingField.ROOT if is_wrong else None
    if any(peer not in (ANY, NOBODY, NOTHING) and _does_not_exist(known, peer) for peer in call.peers):
        return FindingField.SOURCE
    return FindingField.TAG if call.tag < NOTHING - 1 else None


def _does_not_exist(known: Membership, member: int) -> bool:
    """Say whether a communicator has no such member, not even one that is not looked at."""
    return member < LEFT_OUT and known.rank_of(member) is None


def _explain(inspection: Inspection, wrong_calls: dict[int, Call], call: Call, field: FindingField) -> Explanation:
    known = inspection.communicator(call.communicator)
    assert known is not None
    call_text = f"{call_name(call)} at {call.site}"
    if field is FindingField.COUNT:
        return _explain_beyond(inspection, wrong_calls, call)
    if field is FindingField.TAG:
        limit, advice = "tags are 0 or more", f"check the tag of the {call_text}"
        if (decode_outsider(call.tag) or 0) > 0:
            limit = "libraries have a largest tag (MPI.TAG_UB)"
    else:
        limit = f"this communicator has ranks 0 to {len(known.ranks) - 1}"
        if known.num_first:
            others = known.other_side(next(iter(wrong_calls)))
            limit = f"the other side of {known.name} has ranks 0 to {len(others) - 1}"
        elif known.ranks != tuple(range(len(known.ranks))):
            limit = f"{known.name} has {name_ranks(known.ranks)}"
        side = "root" if field is FindingField.ROOT else "destination or source"
        advice = f"check the {side} of the {call_text}: {limit}"
    return Explanation(
        ranks=tuple(sorted(wrong_calls)),
        summary=f"{name_ranks(wrong_calls)} named {_NAMES[field]} that does not exist: "
        f"{_as_written(inspection, call, field)} in {call_text}; {limit}",
        cause=Cause.NO_SUCH_RANK,
        advice=advice,
    )


def _explain_beyond(inspection: Inspection, wrong_calls: dict[int, Call], call: Call) -> Explanation:
    """Explain an access that reaches beyond the end of a window: what lies there is not the window's."""
    target, call_text = member_rank(inspection, call, call.peer), f"{call_name(call)} at {call.site}"
    return Explanation(
        ranks=tuple(sorted(wrong_calls)),
        summary=f"{name_ranks(wrong_calls)} {verb(wrong_calls, 'reaches', 'reach')} beyond the end of the window of "
        f"{target}: the {call_text} goes to byte {call.num_bytes}, and the window has {call.source_bytes} bytes there",
        cause=Cause.TRUNCATED,
        advice=f"check the displacement and the size of the {call_text}, or make the window of {target} larger; a "
        "displacement counts in units of the target's window (disp_unit)",
    )


def _as_written(inspection: Inspection, call: Call, field: FindingField) -> str:
    """Return the number that the user wrote, or how large it is at least."""
    if field is FindingField.TAG:
        number = call.tag
    elif field is FindingField.ROOT:
        number = call.root
    else:
        known = inspection.communicator(call.communicator)
        assert known is not None
        number = next(peer for peer in call.peers if peer not in (ANY, NOBODY) and _does_not_exist(known, peer))
    outsider = decode_outsider(number)
    if outsider is not None and abs(outsider) == FARTHEST:
        return f"{outsider} or {'more' if outsider > 0 else 'less'}"
    return str(number if outsider is None else outsider)
