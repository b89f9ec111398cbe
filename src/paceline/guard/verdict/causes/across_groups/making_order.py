"""Communicators that ranks made in different orders: one variable of the script stands for two of them.

A library gives ranks the same communicator if they made it by calls at the same position, whatever they call it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from paceline.errors import group_ranks
from paceline.guard.shared_memory.operations import COMMUNICATOR_CREATIONS
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import DifferingCalls
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.source.assigned_names import assigned_name
from paceline.guard.verdict.wording import call_name, name_ranks, verb

_Name = Callable[[Inspection, Call], Hashable]  # what a script knows a communicator by; None: it cannot be told


class _Crossing(NamedTuple):
    """A communicator that two sides made from different places, and the calls by which each made that of the other."""

    ranks: tuple[int, ...]
    others: tuple[int, ...]
    call: Call
    call_of_others: Call
    also: Call  # the call of these ranks from the place of the others


class MakingOrder(NamedTuple):
    """How ranks made a communicator from different places, as an explanation and as what differs."""

    explanation: Explanation
    differing: DifferingCalls


def find_making_order(inspection: Inspection, communicators: Iterable[str]) -> MakingOrder | None:
    """Return why ranks mean different things by one of these communicators; None if they made them in one order."""
    for identity in dict.fromkeys(communicators):
        makers = dict(_makers(inspection, identity))
        for name in (_by_site, _by_line, _by_variable):
            crossing = _find_crossing(inspection, makers, name)
            if crossing is not None:
                differing = DifferingCalls(position=crossing.call.position, calls=makers)
                return MakingOrder(_explain(inspection, identity, crossing), differing)
    return None


def _by_site(inspection: Inspection, call: Call) -> Hashable:
    return (call.operation, call.site)


def _by_line(inspection: Inspection, call: Call) -> Hashable:
    return (call.operation, call.site, call.callers)


def _by_variable(inspection: Inspection, call: Call) -> Hashable:
    variable = _variable(inspection, call)
    return (call.operation, variable) if variable else None


def _variable(inspection: Inspection, call: Call) -> str:
    """Return the variable to which a script assigns what a call makes; nothing if that cannot be told."""
    for frame in (call.site, *call.callers):
        file, _, line = frame.rpartition(":")
        source = inspection.sources(file)
        name = assigned_name(source, int(line)) if source is not None else ""
        if name:
            return name
    return ""


def _makers(inspection: Inspection, identity: str) -> Iterator[tuple[int, Call]]:
    """Return the calls by which ranks have made a communicator, as far as they are remembered."""
    known = inspection.communicator(identity)
    for rank in known.ranks if known is not None else ():
        state = inspection.state(rank)
        number = state.made_by.get(identity) if state is not None else None
        call = state.call(number) if state is not None and number is not None else None
        if call is not None and call.is_collective and call.operation in COMMUNICATOR_CREATIONS:
            yield rank, call


def _find_crossing(inspection: Inspection, makers: dict[int, Call], name: _Name) -> _Crossing | None:
    names = {rank: name(inspection, call) for rank, call in makers.items()}
    sides = group_ranks(names)
    if len(sides) != 2 or None in names.values():
        return None
    (usual, others), (odd, ranks) = sides
    call, theirs = makers[ranks[0]], makers[others[0]]
    also = _made_from(inspection, ranks[0], call, usual, name)
    if also is None or _made_from(inspection, others[0], theirs, odd, name) is None:
        return None
    return _Crossing(tuple(ranks), tuple(others), call, theirs, also)


def _made_from(inspection: Inspection, rank: int, call: Call, wanted: Hashable, name: _Name) -> Call | None:
    """Return the only other call of a rank that made a communicator of the same one from a place of this name."""
    past = inspection.collectives(rank, call.communicator).values()
    made = [other for other in past if other.operation == call.operation and other.number != call.number]
    found = [other for other in made if name(inspection, other) == wanted]
    return found[0] if len(found) == 1 else None


def _explain(inspection: Inspection, identity: str, crossing: _Crossing) -> Explanation:
    ranks, others = crossing.ranks, crossing.others
    mine, of_others = (_label(inspection, call) for call in (crossing.call, crossing.also))
    first, second = (mine, of_others) if crossing.call.number < crossing.also.number else (of_others, mine)
    odd = ranks if len(ranks) < len(others) else tuple(sorted((*ranks, *others)))
    return Explanation(
        ranks=odd,
        summary=f"{name_ranks(ranks)} {verb(ranks, 'makes', 'make')} {first} before {second}, {name_ranks(others)} the "
        f"other way round: the communicator {inspection.name(identity)} is {mine} on {name_ranks(ranks)}, and "
        f"{_label(inspection, crossing.call_of_others)} on {name_ranks(others)}",
        cause=Cause.CALL_ORDER,
        advice=f"let every rank make {first} and {second} in the same order: ranks get the same communicator by the "
        "order of their calls, not by the name of a variable",
    )


def _label(inspection: Inspection, call: Call) -> str:
    place, variable = f"{call_name(call)} at {call.site}", _variable(inspection, call)
    return f"`{variable}` ({place})" if variable else f"the {place}"
