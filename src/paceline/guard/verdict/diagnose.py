"""From a snapshot to a finding, or to nothing: certain, or silent. A pure function of its arguments.

This page is the order in which rules are asked; each rule is a file in rules/.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.order_of_ends import may_end_because_of_unseen
from paceline.guard.verdict.rank_names import naming
from paceline.guard.verdict.roles import with_roles
from paceline.guard.verdict.rules import failed_first, misfit, mismatch, standstill, unequal_pair
from paceline.guard.verdict.rules.argument import find_argument
from paceline.guard.verdict.rules.deadlock import find_deadlock
from paceline.guard.verdict.rules.misfit import find_misfit, find_truncated
from paceline.guard.verdict.rules.mismatch import find_mismatch
from paceline.guard.verdict.rules.one_sided_edge import find_one_sided_edge
from paceline.guard.verdict.rules.peer_gone import (
    find_exit_before_kill,
    find_gone_partner,
    find_late,
    find_lost_partner,
    find_peer_gone,
)
from paceline.guard.verdict.rules.unset_key import find_unset_key
from paceline.guard.verdict.rules.window_wait import find_window_wait
from paceline.guard.verdict.rules.wrong_message import find_wrong_message
from paceline.guard.verdict.thread_errors import with_thread_errors
from paceline.guard.verdict.waits.stuck_ranks import stuck_ranks

_Others = ParamSpec("_Others")
_Find = Callable[Concatenate[Inspection, _Others], Finding | None]


def _in_names(find: _Find[_Others]) -> _Find[_Others]:
    """Let a rule call ranks by the names that they have in the snapshot, and know which lines of roles are one."""

    def found(inspection: Inspection, /, *args: _Others.args, **named: _Others.kwargs) -> Finding | None:
        with naming(inspection.snapshot.world_ranks):
            finding = find(with_roles(inspection), *args, **named)
            return with_thread_errors(inspection, finding) if finding is not None else None

    return found


find_first_failure = _in_names(failed_first.find_first_failure)
find_mismatch_at = _in_names(mismatch.find_mismatch_at)
find_any_passed_misfit = _in_names(misfit.find_any_passed_misfit)
find_passed_misfit = _in_names(misfit.find_passed_misfit)
find_standstill = _in_names(standstill.find_standstill)
find_unequal_pair = _in_names(unequal_pair.find_unequal_pair)


@_in_names
def find_certain(inspection: Inspection) -> Finding | None:
    """Return what is wrong whatever happens next."""
    if inspection.was_aborted():
        return None
    return (
        find_argument(inspection)
        or find_misfit(inspection)
        or find_mismatch(inspection)
        or find_unequal_pair(inspection)
        or find_truncated(inspection)
        # a call that not all have made harmed nobody if every rank came to a good end
        or find_peer_gone(inspection)
        or find_exit_before_kill(inspection)
        or find_lost_partner(inspection)
        or find_late(inspection)
    )


@_in_names
def find_passed_mismatch(inspection: Inspection) -> Finding | None:
    """Return where members of a communicator called differently, although they have gone on since."""
    return mismatch.find_passed_mismatch(inspection) if not inspection.was_aborted() else None


@_in_names
def find_stuck(inspection: Inspection, *, cautious: bool) -> Finding | None:
    """Return a finding about ranks that can never move. The snapshot must be a true state of the job."""
    stuck = stuck_ranks(inspection.snapshot, cautious=cautious)
    if not stuck or inspection.was_aborted() or may_end_because_of_unseen(inspection):
        return None
    return (
        find_mismatch(inspection)
        or find_unequal_pair(inspection)
        or find_peer_gone(inspection, stuck)
        or find_wrong_message(inspection, stuck)
        or find_one_sided_edge(inspection, stuck)
        or find_window_wait(inspection, stuck)
        or find_unset_key(inspection, stuck)
        or find_gone_partner(inspection, stuck)
        or find_deadlock(inspection, stuck)
    )


__all__ = [
    "find_any_passed_misfit",
    "find_certain",
    "find_first_failure",
    "find_mismatch_at",
    "find_passed_misfit",
    "find_passed_mismatch",
    "find_standstill",
    "find_stuck",
    "find_unequal_pair",
]
