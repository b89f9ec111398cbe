"""Ranks of different roles make one collective from lines of their own: `if rank == 0: bcast(x) else: bcast(None)`.

Such lines stand for one place of the program. Told apart, they would be taken for the first difference between ranks,
whatever went wrong later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, RankState, is_inter
from paceline.guard.verdict.source.related_lines import are_alternatives

_Line = tuple[str, ...]
_OFTEN = 2  # how often lines must have met, where the source does not say that they belong together


def with_roles(inspection: Inspection) -> Inspection:
    """Return the same job, in which lines of different roles that always meet have one name."""
    pasts: defaultdict[str, defaultdict[int, dict[int, Call]]] = defaultdict(lambda: defaultdict(dict))
    for state in inspection.states():
        for call in state.history:
            if call.sequence and not is_inter(call.communicator):
                pasts[call.communicator][state.rank][call.sequence] = call
    names: dict[tuple[str, _Line], str] = {}
    for identity, by_rank in pasts.items():
        names |= _names_on(inspection, identity, by_rank)
    if not names:
        return inspection
    ranks = [_renamed(state, names) if state is not None else None for state in inspection.snapshot.ranks]
    return Inspection(replace(inspection.snapshot, ranks=ranks), inspection.sources)


def _names_on(
    inspection: Inspection, identity: str, pasts: Mapping[int, Mapping[int, Call]]
) -> dict[tuple[str, _Line], str]:
    """Return the names of lines that always meet on a communicator, and that no rank of another role has made."""
    known = inspection.communicator(identity)
    num_members = len(known.ranks) if known is not None else 0
    makers: defaultdict[_Line, set[int]] = defaultdict(set)
    for rank, past in pasts.items():
        for call in past.values():
            makers[_line(call)].add(rank)
    meetings: defaultdict[frozenset[_Line], list[dict[int, Call]]] = defaultdict(list)
    for sequence in sorted(set().union(*pasts.values())):
        calls = {rank: past[sequence] for rank, past in pasts.items() if sequence in past}
        lines = frozenset(map(_line, calls.values()))
        if len(calls) == num_members and len(lines) > 1 and _fit(calls):
            meetings[lines].append(calls)
    found: dict[tuple[str, _Line], str] = {}
    for lines, times in meetings.items():
        are_of_roles = sum(len(makers[line]) for line in lines) == num_members  # each rank has made just one of them
        if are_of_roles and (len(times) >= _OFTEN or _are_branches(inspection, times[0])):
            name = min(lines)
            found |= {(identity, line): f"{name[0]} {name[1]}" for line in lines}
    return found


def _are_branches(inspection: Inspection, calls: Mapping[int, Call]) -> bool:
    """Say whether calls from two lines stand in two branches."""
    first, *others = {_line(call): call for call in calls.values()}.values()
    return len(others) == 1 and are_alternatives(inspection, first, others[0])


def _line(call: Call) -> _Line:
    return (call.operation, call.site, *call.callers, *call.library)


def _fit(calls: Mapping[int, Call]) -> bool:
    """Say whether calls are the same but for their lines."""
    return (
        len({(call.operation, call.root, call.reduction, call.dtype, call.num_bytes) for call in calls.values()}) == 1
    )


def _renamed(state: RankState, names: Mapping[tuple[str, _Line], str]) -> RankState:
    def named(call: Call) -> Call:
        role = names.get((call.communicator, _line(call))) if call.is_collective else None
        return replace(call, role=role) if role is not None else call

    threads = tuple(
        replace(waiting, call=named(waiting.call)) if waiting is not None else None for waiting in state.threads
    )
    return replace(state, history=tuple(map(named, state.history)), threads=threads)


__all__ = ["with_roles"]
