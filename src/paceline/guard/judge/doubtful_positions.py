"""Positions at which calls differ while one of them may still be refused, as that of another rank was.

A rank whose call was refused goes on to another one, and others that are in the same call as it was may be about to be
refused too. So the ranks that are inside a call there must stay for a while, with the processor, before it counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from paceline.guard.judge.staying import STAY_SECONDS, had_processor, processor_seconds
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class _Insiders:
    """Who was inside which call, since when, and how long each had had a processor then."""

    inside: dict[int, int]
    since: float
    cpu_then: dict[int, float]


@dataclass(slots=True)
class DoubtfulPositions:
    """What was seen of each such position at the last look."""

    _seen: dict[Position, _Insiders] = field(default_factory=dict)

    def has_stayed(self, job: WatchedJob, inspection: Inspection, position: Position) -> bool:
        """Say whether the ranks that are inside a call at a position have stayed there long enough."""
        calls = inspection.calls_at(position)
        inside = {rank: call.number for rank, call in calls.items() if not call.left_ns and not call.failed}
        seen, now = self._seen.get(position), time.monotonic()
        if seen is None or seen.inside != inside:
            cpu = {rank: processor_seconds(job, rank) for rank in inside if rank in job.ranks}
            self._seen[position] = _Insiders(inside=inside, since=now, cpu_then=cpu)
            return False
        return now - seen.since >= STAY_SECONDS and had_processor(job, seen.cpu_then)
