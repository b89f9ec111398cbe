"""Which rank failed first, and which ranks ended because of it.

Ends are ordered by time. The first that ended badly by itself is the cause; what launchers and libraries end afterwards
are victims. Ends that were noticed in the same moment are told apart by how they came about: nobody else makes a rank
raise, or crash in its own code, but a launcher kills with SIGTERM and SIGKILL. If that does not tell, nobody is named.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, End, EndKind, RankState

_BY_LAUNCHER = (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
_SAME_MOMENT_NS = 50_000_000  # a busy judge may notice ends this much later than they came
_NOTICED_TOGETHER_NS = 3_000_000  # ends that one look has found, one after the other


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFailure:
    """The ranks that failed first; `is_certain` is false if others may have been before them."""

    ranks: tuple[int, ...]
    at_ns: int
    is_certain: bool = True


def first_failure(inspection: Inspection) -> FirstFailure | None:
    """Return who failed first; None if no rank has failed by itself."""
    ends = {state.rank: state.end for state in inspection.states() if state.end is not None and is_failure(state)}
    own = {rank: end for rank, end in ends.items() if not end.by_peer}
    if not own:
        return None
    first = min(end.at_ns for end in own.values())
    in_moment = {rank: end for rank, end in own.items() if end.at_ns <= first + _SAME_MOMENT_NS}
    by_itself = tuple(sorted(rank for rank, end in in_moment.items() if not may_be_ended_by_launcher(end)))
    if by_itself:
        return FirstFailure(ranks=by_itself, at_ns=first)
    together = tuple(sorted(rank for rank, end in own.items() if end.at_ns <= first + _NOTICED_TOGETHER_NS))
    if len(together) > 1 and all(own[rank].cause is Cause.OUT_OF_MEMORY for rank in together):
        # the kernel has killed one of them, and the launcher the others: the kernel takes the one that holds most
        together = (max(together, key=lambda rank: own[rank].memory_bytes),)
    return FirstFailure(ranks=together, at_ns=first, is_certain=len(together) == 1)


def is_failure(state: RankState) -> bool:
    """Say whether a rank ended badly."""
    end = state.end
    if end is None or end.kind is EndKind.ABORTED:
        return False
    return end.kind is not EndKind.EXITED or end.exit_code not in (0, None)


def may_be_ended_by_launcher(end: End) -> bool:
    """Say whether a rank was killed as launchers kill."""
    return end.kind is EndKind.KILLED and (end.signal is None or end.signal in _BY_LAUNCHER)


def is_victim(state: RankState, first: FirstFailure | None) -> bool:
    """Say whether a rank ended because another had failed before."""
    end = state.end
    if end is None or first is None or state.rank in first.ranks:
        return False
    if end.by_peer or may_be_ended_by_launcher(end):
        return end.at_ns >= first.at_ns
    # a library that lost its peer inside a call often aborts the process
    return end.kind is EndKind.KILLED and end.at_ns > first.at_ns and open_call(state) is not None


def open_call(state: RankState) -> Call | None:
    """Return the call that a rank is inside, or was when it ended."""
    waiting = next(state.waiting, None)
    return waiting.call if waiting is not None else None
