"""The rule of mismatches: members of a communicator that call differently at the same position.

It is an error whatever the timing. Only arguments that must be equal are compared; what is not known fits everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from paceline.errors import group_ranks
from paceline.guard.shared_memory.layout import NOTHING, STOP_COLLECTIVE, WITHDRAWN
from paceline.guard.verdict.causes.across_groups.making_order import find_making_order
from paceline.guard.verdict.causes.across_groups.wrong_communicator import explain_wrong_communicator
from paceline.guard.verdict.causes.deviation import find_deviation
from paceline.guard.verdict.causes.explain_deviation import explain_deviation
from paceline.guard.verdict.causes.size_order import SAME_TENSORS, brings_several_tensors, explain_sizes
from paceline.guard.verdict.finding import Cause, Explanation, Finding, FindingField, FindingKind, explained_finding
from paceline.guard.verdict.first_difference import DifferingCalls, find_first_difference, shown_difference
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.snapshot import Call, Position
from paceline.guard.verdict.wording import (
    call_name,
    in_part_text,
    member_rank,
    mode_of,
    mode_text,
    name_ranks,
    new_group_text,
    sites_text,
    size_text,
    verb,
)

# in the order in which they are compared: the first that differs is named
_COMPARED = (
    FindingField.OPERATION,
    FindingField.ROOT,
    FindingField.MODE,
    FindingField.REDUCTION,
    FindingField.DTYPE,
    FindingField.COUNT,
    FindingField.COMMUNICATOR,
)
_CAUSES = {
    FindingField.ROOT: Cause.ROOT,
    FindingField.MODE: Cause.MODE,
    FindingField.REDUCTION: Cause.REDUCTION,
    FindingField.DTYPE: Cause.DTYPE,
    FindingField.COUNT: Cause.SHAPE,
    FindingField.COMMUNICATOR: Cause.GROUP,
}
_WORDS = {  # one, several
    FindingField.ROOT: ("root", "roots"),
    FindingField.MODE: ("mode", "modes"),
    FindingField.REDUCTION: ("reduction", "reductions"),
    FindingField.DTYPE: ("element type", "element types"),
    FindingField.COUNT: ("size", "sizes"),
    FindingField.COMMUNICATOR: ("list of ranks", "lists of ranks"),
}
_ADVICE = {
    FindingField.ROOT: "every rank must name the same root in the call at {site}; do not compute it from data of one "
    "rank",
    FindingField.MODE: "every rank must give the call at {site} the same mode: open a file of one rank's own with "
    "MPI.COMM_SELF",
    FindingField.REDUCTION: "every rank must use the same reduction in the call at {site}",
    FindingField.DTYPE: "convert to one element type before the call at {site}: libraries read the bytes as they come",
    FindingField.COUNT: "give every rank the same number of elements in the call at {site}: pad the last batch, or use "
    "a call that takes a count per rank",
    FindingField.COMMUNICATOR: "every rank must make the same groups in the same order, with the same ranks, at {site}",
}
_BROADCASTS = ("bcast", "ibcast", "broadcast")
_SIZE_OF_THE_ROOT = (
    "let the other ranks make room for what the root sends: tell them its size before the call at {site}, and let the "
    "root not change its data in between"
)
_OF_A_TENSOR = (FindingField.REDUCTION, FindingField.DTYPE, FindingField.COUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Calls at one position of a communicator that differ."""

    field: FindingField
    position: Position
    calls: Mapping[int, Call]  # rank -> call
    odd_ranks: tuple[int, ...]  # the minority, or all if there is none


def _compared_value(call: Call, field: FindingField) -> object:
    """Return what is compared, or None where anything fits."""
    if field is FindingField.OPERATION:
        return call.operation
    if field is FindingField.ROOT:
        return call.root if call.traits.rooted and call.root != NOTHING else None
    if field is FindingField.MODE:
        return mode_of(call)
    if field is FindingField.REDUCTION:
        return None if call.reduction == "unknown" else call.reduction
    if field is FindingField.DTYPE:
        return None if call.dtype == "any" or call.num_bytes == 0 else call.dtype
    if field is FindingField.COMMUNICATOR:
        return call.members_hash or None
    return None if call.num_bytes < 0 else call.num_bytes


def compare(calls: Mapping[int, Call]) -> tuple[FindingField, tuple[int, ...]] | None:
    """Compare the calls of ranks at one position; return the field that differs and the minority.

    >>> compare({0: Call(operation="Barrier"), 1: Call(operation="Barrier"), 2: Call(operation="Bcast", root=0)})
    (<FindingField.OPERATION: 'operation'>, (2,))
    """
    for field in _COMPARED:
        values = {rank: _compared_value(call, field) for rank, call in calls.items()}
        groups = group_ranks({rank: value for rank, value in values.items() if value is not None})
        if len(groups) > 1:
            return field, minority([ranks for _, ranks in groups])
    return None


def minority(groups: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the ranks outside the largest group; all of them if there is no largest."""
    ordered = sorted(groups, key=len, reverse=True)
    if len(ordered) > 1 and len(ordered[0]) == len(ordered[1]):
        return tuple(sorted(rank for group in ordered for rank in group))
    return tuple(sorted(rank for group in ordered[1:] for rank in group))


def is_doubtful(inspection: Inspection, position: Position) -> bool:
    """Say whether a call at a position may still be refused, as that of another member was: it is not over yet."""
    calls = inspection.calls_at(position)
    is_open = any(not call.left_ns and not call.failed for call in calls.values())
    return is_open and any(
        past.flags & WITHDRAWN and past.position == position
        for rank in calls
        if (state := inspection.state(rank)) is not None
        for past in state.history
    )


def find_mismatch(inspection: Inspection) -> Finding | None:
    """Find members that call differently at the same position, where a rank has stopped and where ranks wait."""
    for position in _open_positions(inspection):
        finding = find_mismatch_at(inspection, position) if not is_doubtful(inspection, position) else None
        if finding is not None:
            return finding
    return None


def doubtful_positions(inspection: Inspection) -> list[Position]:
    """Return the positions that `find_mismatch` passes over, since a call there may still be refused."""
    return [position for position in _open_positions(inspection) if is_doubtful(inspection, position)]


def _open_positions(inspection: Inspection) -> list[Position]:
    """Return where a rank has stopped and where ranks wait, the first first."""
    positions = set()
    for state in inspection.states():
        if state.stop is not None and state.stop.reason == STOP_COLLECTIVE:
            positions.add(state.stop.call.position)
        positions |= {waiting.call.position for waiting in state.waiting if waiting.call.is_collective}
    return sorted(positions, key=lambda position: (position.sequence, position.communicator))


def find_passed_mismatch(inspection: Inspection) -> Finding | None:
    """Find members that called differently in the past and have gone on, as far as the past is remembered."""
    passed: dict[Position, dict[int, Call]] = {}
    for state in inspection.states():
        for call in state.history:
            known = inspection.communicator(call.communicator)
            if call.is_collective and known is not None and not known.num_first:
                passed.setdefault(call.position, {})[state.rank] = call
    for position in sorted(passed, key=lambda position: (position.sequence, position.communicator)):
        if _may_differ(passed[position].values()) and compare(passed[position]) is not None:
            finding = find_mismatch_at(inspection, position) if not is_doubtful(inspection, position) else None
            if finding is not None:
                return finding
    return None


def _may_differ(calls: Iterable[Call]) -> bool:
    """Say whether calls are worth to be compared: most are equal in all that `compare` looks at."""
    compared = {
        (call.operation, call.root, call.reduction, call.dtype, call.num_bytes, call.members_hash) for call in calls
    }
    return len(compared) > 1


def find_mismatch_at(inspection: Inspection, position: Position) -> Finding | None:
    """Compare the members at one position of a communicator."""
    calls = inspection.calls_at(position)
    compared = compare(calls)
    if compared is None:
        return None
    field, odd_ranks = compared
    mismatch = Mismatch(field=field, position=position, calls=calls, odd_ranks=odd_ranks)
    differing = find_first_difference(inspection, position)
    explanations = _explain(inspection, mismatch, differing)
    if not inspection.unseen_members([position.communicator]):
        made = find_making_order(inspection, [position.communicator])
        explanations, differing = ([made.explanation], made.differing) if made else (explanations, differing)
    return explained_finding(
        FindingKind.MISMATCH, explanations, rank_groups(inspection, calls), field=field,
        first_difference=shown_difference(inspection, differing),
    )  # fmt: skip


def _explain(inspection: Inspection, mismatch: Mismatch, differing: DifferingCalls | None) -> list[Explanation]:
    unseen = inspection.unseen_members([mismatch.position.communicator])
    if unseen:
        return [_explain_in_part(inspection, mismatch, unseen)]
    # If ranks went different ways before, the call that does not fit is only where it shows.
    deviation = find_deviation(inspection, differing)
    if deviation is not None:
        odd = {rank: deviation.calls[rank] for rank in deviation.out_of_line}
        return explain_wrong_communicator(inspection, odd) or explain_deviation(inspection, deviation)
    if mismatch.field is FindingField.OPERATION:
        return [_explain_operation(inspection, mismatch)]
    by_order = explain_sizes(inspection, mismatch.position, mismatch.calls)
    is_told = by_order and by_order[0].cause is Cause.SKIPPED_CALL
    return by_order if is_told else [*by_order, _explain_field(inspection, mismatch)]


def _explain_in_part(inspection: Inspection, mismatch: Mismatch, unseen: tuple[int, ...]) -> Explanation:
    """Explain calls that differ where members are out of sight: most of them may call as the fewer do here."""
    by_operation = mismatch.field is FindingField.OPERATION
    texts = _calls_text(mismatch) if by_operation else _values_text(inspection, mismatch)
    what = "calls" if by_operation else _WORDS[mismatch.field][1]
    return Explanation(
        ranks=tuple(sorted(mismatch.calls)),
        summary=f"{name_ranks(mismatch.calls)} do not fit together at {inspection.text(mismatch.position)}, with "
        f"different {what}: {texts}; {in_part_text(unseen)}",
        cause=_CAUSES.get(mismatch.field, Cause.DIFFERENT_COLLECTIVES),
        advice="let every rank make the same call with the same arguments here, and look at the ranks that are not "
        "seen from here too",
    )


def _explain_field(inspection: Inspection, mismatch: Mismatch) -> Explanation:
    """Explain the same call with another argument."""
    calls, odd = list(mismatch.calls.values()), mismatch.odd_ranks
    one, several = _WORDS[mismatch.field]
    where = f"{call_name(calls[0])} at {sites_text(calls)}"
    summary = f"{name_ranks(odd)} {verb(odd, 'calls', 'call')} {where} with a different {one}"
    if len(odd) == len(calls):
        summary = f"ranks call {where} with different {several}"
    return Explanation(
        ranks=odd,
        summary=f"{summary}: {_values_text(inspection, mismatch)} ({inspection.text(mismatch.position)})",
        cause=_CAUSES[mismatch.field],
        advice=_field_advice(inspection, mismatch, calls[0].site),
    )


def _field_advice(inspection: Inspection, mismatch: Mismatch, site: str) -> str:
    """Say what to change. Where one line brings several tensors, ranks may have come to it with different ones."""
    advice = _ADVICE[mismatch.field]
    if mismatch.field is FindingField.COUNT and _is_of_the_root(inspection, mismatch):
        advice = _SIZE_OF_THE_ROOT
    if mismatch.field in _OF_A_TENSOR and brings_several_tensors(inspection, mismatch.position, mismatch.calls):
        advice = f"{SAME_TENSORS}; if they do, {advice}"
    return advice.format(site=site)


def _is_of_the_root(inspection: Inspection, mismatch: Mismatch) -> bool:
    """Say whether the root alone gives a broadcast another size: the others made room for what they were told."""
    call = next(iter(mismatch.calls.values()))
    known = inspection.communicator(mismatch.position.communicator)
    root = known.rank_of(call.root) if known is not None and not known.num_first else None
    return call_name(call).lower() in _BROADCASTS and mismatch.odd_ranks == (root,)


def _values_text(inspection: Inspection, mismatch: Mismatch) -> str:
    values = {rank: _value_text(inspection, call, mismatch.field) for rank, call in mismatch.calls.items()}
    if mismatch.field is FindingField.ROOT:  # on the root's side of an intercommunicator others do not name it
        values = {rank: text for rank, text in values.items() if mismatch.calls[rank].root != NOTHING}
    return "; ".join(f"{text} on {name_ranks(ranks)}" for text, ranks in group_ranks(values))


def _value_text(inspection: Inspection, call: Call, field: FindingField) -> str:
    if field is FindingField.ROOT:
        return f"root {member_rank(inspection, call, call.root).removeprefix('rank ')}"
    if field is FindingField.MODE:
        return mode_text(call)
    if field is FindingField.REDUCTION:
        return call.reduction
    if field is FindingField.COMMUNICATOR:
        return new_group_text(inspection, call) or f"a group at {call.site}"
    return size_text(call) or "not known"


def _explain_operation(inspection: Inspection, mismatch: Mismatch) -> Explanation:
    """Explain another operation from the same line, as a helper makes that is told which one to make."""
    texts = _calls_text(mismatch)
    return Explanation(
        ranks=mismatch.odd_ranks,
        summary=f"{name_ranks(mismatch.odd_ranks)} fell out of line at {inspection.text(mismatch.position)}: {texts}",
        cause=Cause.DIFFERENT_COLLECTIVES,
        advice="let every rank make the same call here: look for what decides which one it is",
    )


def _calls_text(mismatch: Mismatch) -> str:
    groups = group_ranks({rank: (call_name(call), call.site) for rank, call in mismatch.calls.items()})
    return ", ".join(
        f"{name_ranks(ranks)} {verb(ranks, 'calls', 'call')} {name} at {site}" for (name, site), ranks in groups
    )
