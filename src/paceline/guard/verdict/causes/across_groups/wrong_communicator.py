"""Why a rank makes a collective where nobody expects it: it took another communicator than others take at that line.

A line belongs to one communicator of each rank, or to none: one that reduces over several groups in turn tells nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.first_difference import Line, line_of
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call
from paceline.guard.verdict.wording import call_name, name_rank, name_ranks, verb


@dataclass(frozen=True, slots=True, kw_only=True)
class _UsedLine:
    """On which communicators ranks have made the collective of one line."""

    by_rank: defaultdict[int, dict[str, list[Call]]] = field(default_factory=lambda: defaultdict(dict))
    by_communicator: defaultdict[str, dict[int, Call]] = field(default_factory=lambda: defaultdict(dict))  # the last
    members: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))  # those a rank belongs to

    def note(self, rank: int, call: Call) -> None:
        """Take in a call that a rank has made here."""
        self.by_rank[rank].setdefault(call.communicator, []).append(call)
        self.by_communicator[call.communicator][rank] = call

    def is_used_for_several(self, but: int) -> bool:
        """Say whether a rank makes it on several communicators."""
        return any(len(made) > 1 for rank, made in self.by_rank.items() if rank != but)

    def is_used_by_others(self, communicator: str, rank: int) -> bool:
        """Say whether others than this rank make it on a communicator."""
        users = self.by_communicator[communicator]
        return len(users) > (rank in users)

    def used_before(self, rank: int, call: Call) -> set[str]:
        """Return the communicators on which a rank has made it, but for this one call."""
        return {
            name
            for name, made in self.by_rank[rank].items()
            if any(earlier.number != call.number for earlier in made)
        }  # fmt: skip


def explain_wrong_communicator(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain one of these calls by a communicator on which others make it, and wait for its rank; nothing if none."""
    collectives = {rank: call for rank, call in sorted(calls.items()) if call.is_collective}
    lines = _used_lines(inspection, {line_of(call) for call in collectives.values()})
    for rank, call in collectives.items():
        right, waiting = _right_communicator(inspection, rank, call, lines[line_of(call)])
        if waiting:
            is_habit = right in lines[line_of(call)].used_before(rank, call)
            return [_explain(inspection, rank, call, inspection.name(right), waiting, is_habit=is_habit)]
    return []


def _used_lines(inspection: Inspection, places: Set[Line]) -> dict[Line, _UsedLine]:
    lines = {place: _UsedLine() for place in places}
    for state in inspection.states():
        for call in state.history:
            if call.is_collective and (place := line_of(call)) in lines:
                lines[place].note(state.rank, call)
    for line in lines.values():
        for name in line.by_communicator:
            known = inspection.communicator(name)
            for rank in known.ranks if known is not None else ():
                line.members[rank].append(name)
    return lines


def _right_communicator(inspection: Inspection, rank: int, call: Call, line: _UsedLine) -> tuple[str, list[int]]:
    """Return the communicator that a rank should have taken, and who waits there for it; nobody if that is not told."""
    before = line.used_before(rank, call)
    if len(before) > 1 or call.communicator in before or line.is_used_by_others(call.communicator, rank):
        return "", []  # the line belongs to it
    candidates = before or set(line.members[rank]) - {call.communicator}
    if len(candidates) != 1 or line.is_used_for_several(but=rank):
        return "", []
    (right,) = candidates
    made = line.by_communicator[right]
    waiting = [other for other, theirs in made.items() if other != rank and inspection.lacks(rank, theirs.position)]
    is_of_groups = len(line.by_communicator.keys() - {call.communicator}) > 1  # each of which makes it on its own
    if not before and not is_of_groups and all(inspection.is_member(other, call.communicator) for other in waiting):
        return "", []  # they could have come to its communicator as well as it to theirs: an order of calls, maybe
    return right, sorted(waiting)


def _explain(
    inspection: Inspection, rank: int, call: Call, right: str, waiting: list[int], *, is_habit: bool
) -> Explanation:
    what, who = f"{call_name(call)} at {call.site}", name_rank(rank)
    before = f", as {who} did before" if is_habit else ""
    return Explanation(
        ranks=(rank,),
        summary=f"{who} makes the {what} on {inspection.name(call.communicator)}; {name_ranks(waiting)} "
        f"{verb(waiting, 'makes', 'make')} it on {right}{before}, and {verb(waiting, 'waits', 'wait')} there for {who}",
        cause=Cause.WRONG_COMMUNICATOR,
        advice=f"let {who} make the {what} on {right}, too",
    )
