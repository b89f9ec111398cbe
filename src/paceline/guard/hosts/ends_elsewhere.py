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
_RECENT_NS = 60_000_000_000  # after that a finding is about others: the job was started again, or another one was


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


def may_be_stopped(ranks: Collection[int], ends: Sequence[RankEnd], now_ns: int) -> bool:
    """Say whether a cluster may just have ended the whole job, and with it the ranks that are named.

    Then ranks of several hosts were killed by one signal that stops jobs, at about one time. Others may have handled
    it, or have failed in a call because their peers were gone.
    """
    named = [end for end in ends if end.rank in ranks]
    if not named or any(end.signal not in STOP_SIGNALS for end in named):
        return False
    times = [end.at_ns for end in named]
    alike = [end for end in ends if end.signal == named[0].signal and abs(end.at_ns - min(times)) < _STOP_NS]
    return len({end.host for end in alike}) > 1 and now_ns - max(times) < _RECENT_NS


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
