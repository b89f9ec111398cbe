"""The user's time limit, without the judge: it holds when the judge has failed.

It looks at one rank at a time: at the calls that the rank itself is inside, and at our own clock. It says nothing about
who waits for whom.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.verdict.finding import Cause, Finding, FindingKind, GroupState, RankGroup
from paceline.guard.verdict.rank_names import naming
from paceline.guard.verdict.wording import call_name, name_ranks, verb

_LOOK_SECONDS = 0.1  # between two looks


class TimeLimit:
    """Notes since when each rank has been inside the same calls."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._inside: dict[int, tuple[tuple[int, ...], float]] = {}  # pid -> (mark of its ring, since when)
        self._looked = 0.0

    def note(self, jobs: Sequence[WatchedJob]) -> None:
        """Note which ranks are inside calls now."""
        now = time.monotonic()
        if self._seconds is None or now - self._looked < min(_LOOK_SECONDS, self._seconds / 4):
            return
        self._looked = now
        inside = {}
        for job in jobs:
            for rank in job.ranks.values():
                if not rank.process.has_ended() and rank.reader.is_inside():
                    mark, before = rank.reader.mark(), self._inside.get(rank.process.pid)
                    inside[rank.process.pid] = before if before is not None and before[0] == mark else (mark, now)
        self._inside = inside

    def passed(self, jobs: Sequence[WatchedJob], *, why: str = "the guard had failed") -> Finding | None:
        """Return a finding if ranks have been inside the same calls for longer than the limit.

        Args:
            jobs: The jobs that are known.
            why: Why nobody knows who is waited for.
        """
        if self._seconds is None:
            return None
        now = time.monotonic()
        for job in jobs:
            seconds = {
                number: now - self._inside[rank.process.pid][1]
                for number, rank in sorted(job.ranks.items())
                if rank.process.pid in self._inside
            }
            ranks = tuple(number for number, passed in seconds.items() if passed >= self._seconds)
            if ranks:
                with naming(job.world_ranks):
                    return self._finding(job, ranks, max(seconds.values()), why)
        return None

    def _finding(self, job: WatchedJob, ranks: tuple[int, ...], seconds: float, why: str) -> Finding:
        return Finding(
            kind=FindingKind.DEADLOCK, field=None, ranks=ranks, cause=Cause.TIMEOUT,
            summary=f"{name_ranks(ranks)} {verb(ranks, 'has', 'have')} been inside a call for {seconds:.0f} s, longer "
            f"than the limit of {self._seconds:g} s; who is waited for is not known, because {why}",
            advice="see where these ranks wait, or give --timeout a larger number",
            groups=tuple(_group(number, job.ranks[number]) for number in ranks), decided_ns=time.monotonic_ns(),
        )  # fmt: skip


def _group(number: int, rank: WatchedRank) -> RankGroup:
    """Return where a rank is, as far as its ring can be read."""
    try:
        waiting = next((waiting for waiting in rank.reader.threads() if waiting is not None), None)
    except Exception:  # the guard has failed and said so; this ring may be the reason
        waiting = None
    return RankGroup(
        ranks=(number,), state=GroupState.BLOCKED, call=call_name(waiting.call) if waiting is not None else None,
        site=waiting.call.site if waiting is not None else None, communicator=None, sequence=None,
    )  # fmt: skip
