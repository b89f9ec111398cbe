"""Which of the ranks that ended on different hosts was certainly the first. Values in, an answer out.

A launcher that has lost one rank kills all others, and libraries that lose their peer raise. Times of other hosts are
known up to an error, and a busy host may notice late that a rank was killed. So a rank is the first if others that were
killed were seen alive after it, and others that said themselves when they ended said so later. A cluster that ends a
whole job tells its hosts one after the other: if all ranks end by one such signal, nobody was first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.order_of_ends import STOP_SIGNALS, may_be_ended_by_launcher
from paceline.guard.verdict.snapshot import End

_STOP_NS = 1_000_000_000  # within which a cluster has told all hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """How and where a rank ended; times by the clock of the head, and by how much they may be wrong."""

    rank: int
    host: str
    is_killed: bool  # as launchers kill
    is_failure: bool  # by itself, and not because of a peer
    at_ns: int
    alive_ns: int
    error_ns: int = 0
    signal: int | None = None

    @classmethod
    def of(cls, rank: int, end: End, process: ProcessHandle) -> RankEnd:
        """Return the end of a rank."""
        return cls(
            rank=rank, host=process.host, is_killed=may_be_ended_by_launcher(end),
            is_failure=end.is_failure and not end.by_peer, at_ns=end.at_ns, alive_ns=process.alive_ns,
            error_ns=getattr(process, "error_ns", 0), signal=end.signal,
        )  # fmt: skip

    def is_before(self, other: RankEnd) -> bool:
        """Say whether this end was certainly before that one."""
        latest = self.at_ns + self.error_ns
        if other.alive_ns - other.error_ns >= latest:
            return True
        return not other.is_killed and latest < other.at_ns - other.error_ns


def ends_of(job: WatchedJob) -> list[RankEnd]:
    """Return how ranks of a job have ended that had joined it."""
    return [RankEnd.of(rank, end, job.ranks[rank].process) for rank, end in job.ends().items() if rank in job.ranks]


def may_be_stopped(ends: Sequence[RankEnd], num_ranks: int) -> bool:
    """Say whether a cluster may have ended the whole job: all its ranks, on several hosts, by one signal at one time.

    Args:
        ends: How ranks have ended.
        num_ranks: How many there are.
    """
    if len(ends) < num_ranks or len({end.host for end in ends}) < 2 or len({end.signal for end in ends}) > 1:
        return False
    times = [end.at_ns for end in ends]
    return all(end.signal in STOP_SIGNALS for end in ends) and max(times) - min(times) < _STOP_NS


def was_first(ranks: Collection[int], ends: Sequence[RankEnd]) -> bool:
    """Say whether the ranks that are named failed certainly before those of other hosts that failed by themselves.

    >>> first = RankEnd(rank=5, host="n3", is_killed=True, is_failure=True, at_ns=100, alive_ns=90)
    >>> late = RankEnd(rank=0, host="", is_killed=True, is_failure=True, at_ns=104, alive_ns=101)
    >>> was_first([5], [first, late]), was_first([0], [first, late])
    (True, False)
    """
    named = [end for end in ends if end.rank in ranks and end.is_failure]
    others = [end for end in ends if end.rank not in ranks and end.is_failure]
    return all(first.is_before(other) for first in named for other in others if first.host != other.host)
