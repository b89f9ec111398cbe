"""Whether a rank stays inside a call because it waits there, and not because it has no processor to go on with."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.guard.judge.patience import LEAVE_SECONDS
from paceline.guard.observe.watched_job import WatchedJob

STAY_SECONDS = 0.35  # how long a call that a library may complete must stay inside before it counts as waiting


def processor_seconds(job: WatchedJob, rank: int) -> float:
    """Return for how long a rank has had a processor, in all."""
    return job.ranks[rank].process.processor_seconds()


def had_processor(job: WatchedJob, then: Mapping[int, float]) -> bool:
    """Say whether every rank that stays has run since `then`, or sleeps because there is nothing to do."""
    for rank, seconds in then.items():
        found = job.ranks[rank].process.activity()
        if found is None:
            continue
        worked = processor_seconds(job, rank) - seconds >= LEAVE_SECONDS
        if found.state != "S" and not (worked and found.state == "R"):
            return False
    return True
