"""Why ranks of a small group wait: one of them has left out a call that ranks of other groups made at the same line.

Programs that work in groups, such as the two sides of an intercommunicator, let every rank make a call on the
communicator of its own group. These calls share no position on which they could be compared, but they share a line.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Position
from paceline.guard.verdict.source.passed_over import can_be_left_out
from paceline.guard.verdict.source.related_lines import relate_calls
from paceline.guard.verdict.wording import call_name, name_rank, name_ranks, verb

_Line = tuple[str, str, tuple[str, ...]]  # what tells the lines of groups apart: name, site, callers


def explain_by_sisters(inspection: Inspection, calls: Mapping[int, Call]) -> list[Explanation]:
    """Explain ranks that wait in these calls by a line that some of those they wait for have passed over."""
    if any(state.history and state.history[0].number for state in inspection.states()):
        return []  # one has forgotten what it did first, so its calls cannot be counted
    all_times = _times_made(inspection)
    seen: set[tuple[Position, _Line, int]] = set()  # what is equal for ranks here is equal in all that follows
    found: list[tuple[int, Explanation]] = []
    for rank, call in sorted(calls.items()):
        times = all_times[_line(call)]
        key = (call.position, _line(call), times.get(rank, 0))
        if key in seen:
            continue
        seen.add(key)
        missing = sorted(inspection.missing_at(call.position) & calls.keys())
        made = {state.rank for state in inspection.states() if times.get(state.rank, 0) >= times.get(rank, 0)}
        known = inspection.communicator(call.communicator)
        sisters = made - set(known.ranks if known is not None else made)  # made it on the communicator of their group
        late = [other for other in missing if other not in made]
        if not sisters or not late or late != missing:
            continue
        theirs = calls[late[0]]
        # others that have passed over the same line stand where these do; who waits above it may still come to it
        behind = sorted(other for other in calls.keys() - made if _line(calls[other]) == _line(theirs))
        if not can_be_left_out(inspection, call, theirs):
            continue  # it is the order of calls that differs
        relation = relate_calls(inspection, call, theirs)
        is_above = relation is not None and relation.first_is_above and not relation.share_a_loop
        if is_above or len(made) > len(behind):
            found.append((len(made), _explain(inspection, behind, rank, call, theirs)))
    return [max(found, key=lambda one: one[0])[1]] if found else []  # the line that most have come to


def _line(call: Call) -> _Line:
    return (call_name(call), call.site, call.callers)


def _times_made(inspection: Inspection) -> defaultdict[_Line, dict[int, int]]:
    """Return for each line how often ranks have made its collective, on whatever communicator.

    A leader of Create_intercomm has two records of each: one for its own side, one for the other leader.
    """
    times: defaultdict[_Line, dict[int, int]] = defaultdict(dict)
    for state in inspection.states():
        made = Counter((_line(past), past.operation) for past in state.history if past.is_collective)
        for (line, _), number in made.items():
            times[line][state.rank] = max(times[line].get(state.rank, 0), number)
    return times


def _explain(inspection: Inspection, late: Sequence[int], waiting: int, call: Call, theirs: Call) -> Explanation:
    name = f"{call_name(call)} at {call.site}"
    return Explanation(
        ranks=tuple(late),
        summary=f"{name_ranks(late)} left out the {name}, in which {name_rank(waiting)} waits: "
        f"{verb(late, 'it is', 'they are')} in {call_name(theirs)} on {inspection.name(theirs.communicator)} at "
        f"{theirs.site}",
        cause=Cause.SKIPPED_CALL,
        advice=f"let every rank of both groups make the {name}, or none of them: find out why {name_ranks(late)} came "
        f"to the {call_name(theirs)} without it",
    )
