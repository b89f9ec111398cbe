"""Which ranks may be ending together with those that a finding names: somebody may have ended the whole job."""

from __future__ import annotations

from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.finding import Finding, FindingKind
from paceline.guard.verdict.order_of_ends import STOP_SIGNALS, may_be_ended_by_launcher, may_be_stop
from paceline.guard.verdict.snapshot import End


def may_be_of_stop(job: WatchedJob, finding: Finding) -> bool:
    """Say whether a finding may name ranks that were ended with the whole job."""
    return bool(_named_as_killed(job, finding)) and may_be_stop(job.ends())


def ending_ranks(job: WatchedJob, finding: Finding) -> set[int]:
    """Return the ranks that live, if those that a finding names may have been ended with the whole job.

    Whoever stops a job may send its signal to one rank after the other.
    """
    named = _named_as_killed(job, finding)
    if not any(end.with_others or end.signal in STOP_SIGNALS for end in named):
        return set()
    return {number for number, rank in job.ranks.items() if not rank.process.has_ended()}


def _named_as_killed(job: WatchedJob, finding: Finding) -> list[End]:
    """Return the ends that a finding is about, if all of them were killed as launchers kill."""
    if finding.kind is not FindingKind.PEER_GONE:
        return []
    ends = job.ends()
    named = [ends[rank] for rank in finding.ranks if rank in ends]
    return named if len(named) == len(finding.ranks) and all(map(may_be_ended_by_launcher, named)) else []
