"""Which ranks may be ending together with those that a finding names: somebody may have ended the whole job."""

from __future__ import annotations

from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.finding import Finding, FindingKind
from paceline.guard.verdict.order_of_ends import may_be_of_stop


def ending_ranks(job: WatchedJob, finding: Finding) -> set[int] | None:
    """Return the ranks that live, if those that a finding names may have been ended with the whole job.

    None if no rank lives any more: when the launcher has ended, too, it is known whether it was the whole job.
    """
    if finding.kind is not FindingKind.PEER_GONE:
        return set()
    ends = job.ends()
    named = [ends[rank] for rank in finding.ranks if rank in ends]
    if not named or not all(may_be_of_stop(end) for end in named):
        return set()
    return (job.ranks.keys() - ends.keys()) or None
