"""From a snapshot to a finding, or to nothing: certain, or silent. A pure function of its arguments.

This page is the order in which rules are asked; each rule is a file in rules/.
"""

from __future__ import annotations

from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.rules.argument import find_argument
from paceline.guard.verdict.rules.deadlock import find_deadlock
from paceline.guard.verdict.rules.misfit import find_misfit
from paceline.guard.verdict.rules.mismatch import find_mismatch, find_mismatch_at
from paceline.guard.verdict.rules.peer_gone import (
    find_exit_before_kill,
    find_first_failure,
    find_gone_partner,
    find_late,
    find_lost_partner,
    find_peer_gone,
)
from paceline.guard.verdict.rules.wrong_message import find_wrong_message
from paceline.guard.verdict.stuck_ranks import stuck_ranks


def find_certain(inspection: Inspection) -> Finding | None:
    """Return what is wrong whatever happens next."""
    if inspection.was_aborted():
        return None
    return (
        find_argument(inspection)
        or find_misfit(inspection)
        or find_mismatch(inspection)
        # a call that not all have made harmed nobody if every rank came to a good end
        or find_peer_gone(inspection)
        or find_exit_before_kill(inspection)
        or find_lost_partner(inspection)
        or find_late(inspection)
    )


def find_stuck(inspection: Inspection, *, cautious: bool) -> Finding | None:
    """Return a finding about ranks that can never move. The snapshot must be a true state of the job."""
    stuck = stuck_ranks(inspection.snapshot, cautious=cautious)
    if not stuck or inspection.was_aborted():
        return None
    return (
        find_mismatch(inspection)
        or find_peer_gone(inspection)
        or find_wrong_message(inspection, stuck)
        or find_gone_partner(inspection, stuck)
        or find_deadlock(inspection, stuck)
    )


__all__ = ["find_certain", "find_first_failure", "find_mismatch_at", "find_stuck"]
