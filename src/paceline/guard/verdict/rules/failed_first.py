"""The rule for a job that has failed and ended: which rank failed by itself, and which were ended because of it."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import replace

from paceline.guard.shared_memory.operations import Needs
from paceline.guard.verdict.causes.explain_end import BECAUSE_OF_IT, explain_end
from paceline.guard.verdict.finding import Finding, FindingKind, explained_finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.order_of_ends import FirstFailure, first_failure, may_be_ended_by_launcher, open_call
from paceline.guard.verdict.rank_groups import rank_groups
from paceline.guard.verdict.rules.peer_gone import unless_of_unseen, with_victims
from paceline.guard.verdict.snapshot import Call, End, EndKind

_ANSWER_NS = 2_000_000_000  # within which a launcher ends the other ranks, and a busy judge sees it


def _may_answer_an_exit(inspection: Inspection, ends: Iterable[End]) -> bool:
    """Say whether a launcher may have killed a rank because another had just left at once, with whatever code."""
    exits = [state.end.at_ns for state in inspection.states() if state.end is not None and state.end.at_once]
    killed = [end.at_ns for end in ends if exits and may_be_ended_by_launcher(end)]
    return any(0 <= at_ns - exit_ns <= _ANSWER_NS for at_ns in killed for exit_ns in exits)


def find_first_failure(
    inspection: Inspection, told_signal: int | None = None, *, was_stopped: bool = False
) -> Finding | None:
    """After the job has ended: find ranks that failed by themselves, while others were ended because of it.

    Args:
        inspection: The job.
        told_signal: The signal that has killed a rank, as the exit code of the launcher says.
        was_stopped: Whether the launcher says that it was told to end.
    """
    if inspection.was_aborted():
        return None
    first = first_failure(inspection)
    if first is not None and first.may_be_stop:
        first = _first_as_told(inspection, first, told_signal) if not was_stopped else None
    if first is None or len(first.ranks) == len(inspection.snapshot.ranks) - len(inspection.out_of_sight()):
        return None  # all that are seen failed alike, or somebody has ended the whole job
    failed = frozenset(first.ranks)
    states = [state for state in inspection.states() if state.rank in failed]
    if any(state.end is not None and state.end.kind is EndKind.EXITED for state in states):
        return None  # it exited with a code of its own choice: that is the job's own end
    if _may_answer_an_exit(inspection, (state.end for state in states if state.end is not None)):
        return None  # the launcher may have killed it because another had left, as it was free to
    others = [state.end for state in inspection.states() if state.rank not in failed and state.end is not None]
    if all(end.kind is EndKind.EXITED for end in others):
        return None  # nobody was ended because of it
    inside = _ended_inside(inspection, failed) if first.is_certain else {}
    position = next((call.position for call in inside.values()), None)
    others_text = "the other ranks were killed right after it" if first.may_be_stop else BECAUSE_OF_IT
    explanations = explain_end(
        inspection, first.ranks, list(inside), position, is_first=first.is_certain, others_text=others_text
    )
    groups = rank_groups(with_victims(inspection, first), inside)
    return unless_of_unseen(inspection, explained_finding(FindingKind.PEER_GONE, explanations, groups))


def _first_as_told(inspection: Inspection, first: FirstFailure, told_signal: int | None) -> FirstFailure | None:
    """Return the rank that was killed first, if a launcher says that one was, and not that it has ended the job itself.

    A launcher that is told to end a job passes the signal on, which is another one, or has another code. One rank that
    ended while all others went on needs no word of it.
    """
    if first.was_alone:
        return replace(first, is_certain=len(first.ranks) == 1, may_be_stop=False)
    states = [inspection.state(rank) for rank in first.ranks]
    ends = [state.end for state in states if state is not None and state.end is not None]
    is_told = all(end.signal in (told_signal, None) for end in ends)  # older kernels do not always tell it
    return replace(first, is_certain=True) if is_told and told_signal == signal.SIGKILL else None


def _ended_inside(inspection: Inspection, failed: frozenset[int]) -> dict[int, Call]:
    """Return the calls of ranks that were ended in a collective for which all wait, before failed ones had come.

    They may have waited in several: it is the first rank's that is told.
    """
    inside: dict[int, Call] = {}
    for state in inspection.states():
        call = open_call(state) if state.rank not in failed else None
        if call is None or not call.is_collective or call.traits.needs is not Needs.ALL:
            continue
        if failed <= inspection.missing_at(call.position):
            inside[state.rank] = call
    told = next((call.position for call in inside.values()), None)
    return {rank: call for rank, call in inside.items() if call.position == told}
