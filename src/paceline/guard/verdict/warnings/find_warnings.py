"""From a snapshot to warnings. This page is the list of rules; each rule is a file beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning
from paceline.guard.verdict.rank_names import naming
from paceline.guard.verdict.warnings.buffer_in_use import find_buffers_in_use
from paceline.guard.verdict.warnings.differing_results import find_differing_results
from paceline.guard.verdict.warnings.leaked_handle import find_leaked_handles
from paceline.guard.verdict.warnings.lost_message import find_lost_messages
from paceline.guard.verdict.warnings.message_race import find_message_races
from paceline.guard.verdict.warnings.unfinished_request import find_unfinished_requests
from paceline.guard.verdict.warnings.window_conflict import find_window_conflicts

# Each gets the job, and whether it has ended well: some things are certain only then.
Rule = Callable[[Inspection, bool], list[JobWarning]]
_RULES: Sequence[Rule] = (
    find_lost_messages, find_unfinished_requests, find_buffers_in_use, find_window_conflicts, find_leaked_handles,
    find_differing_results, find_message_races,
)  # fmt: skip


def find_warnings(inspection: Inspection, *, ended_well: bool) -> list[JobWarning]:
    """Return what is certain and did not stop the job."""
    if inspection.was_aborted():
        return []
    with naming(inspection.snapshot.world_ranks):
        return [warning for rule in _RULES for warning in rule(inspection, ended_well)]
