"""What a live view shows of a run: states, rates, who waits, who comes last. It reads the rings that the judge reads.

Nothing is asked of the ranks. The time they spend in calls is sampled; the rest comes from their last few records. Of
ranks on other hosts, their hosts tell the same while somebody looks.
"""

from __future__ import annotations

import socket
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from paceline.guard.observe.glances import CallShares, Glance
from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.verdict.snapshot import EndKind

_WINDOW_SECONDS, _RATE_SECONDS = 10.0, 0.2  # over which rates are taken, at most and at least
_SECONDS_PER_RANK = 200e-6  # between two samples, for each rank: with thousands there are fewer
_RECENT, _FEW_RECENT, _MANY_RANKS = 32, 8, 256  # records of a rank that are read for each view, and for many ranks
_SECONDS_PER_WAITED_FOR = 5e-3  # the same for working out who is waited for
_KEPT_ARRIVALS = 200
_LONG_SECONDS = 1.0  # waits this long show who is waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank as it is shown."""

    rank: int
    state: str  # waiting, running, exited, raised, killed, absent
    call: str = ""
    site: str = ""
    seconds: float = 0.0  # since it entered that call
    steps_per_second: float | None = None
    share_in_calls: float | None = None
    share_last: float | None = None
    detail: str = ""
    host: str = ""  # its name, if the job runs on several


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job of a run as it is shown: all its ranks, or some of them if it is a large one on several hosts."""

    world_size: int
    seconds: float  # since the run began, or the first rank was seen
    ranks: tuple[RankView, ...]
    step_site: str = ""  # the site whose calls are counted as steps
    steps: int = 0  # by the rank that has the fewest
    waited_for: tuple[int, ...] = ()
    last_rank: int | None = None  # the one that most often enters a collective last
    last_by_ms: float = 0.0  # by how much, the middle of its cases


@dataclass(slots=True)
class _JobHistory:
    """What is remembered of one job between views."""

    since: float
    shares: CallShares = field(default_factory=CallShares)
    counts: dict[int, dict[str, int]] = field(default_factory=dict)  # rank -> site -> calls made there
    counts_then: deque[tuple[float, dict[int, dict[str, int]]]] = field(default_factory=deque)  # (when, counts)
    compared: dict[str, int] = field(default_factory=dict)  # communicator -> last sequence whose arrivals were compared
    error_ns: int = 0  # by how much times of ranks may be wrong, on several hosts
    waited_for: tuple[int, ...] = ()
    waited_for_at: float = 0.0  # when that was worked out
    arrivals: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_KEPT_ARRIVALS))  # (last, ms late)


class Gauges:
    """Takes samples at every look, and makes a view of them when asked."""

    def __init__(self, began: float | None = None) -> None:
        self._began = began  # when the run began, by the monotonic clock; None: when each job is first seen
        self._histories: dict[str, _JobHistory] = {}
        self._sampled = 0.0

    def _history_of(self, job: WatchedJob) -> _JobHistory:
        if job.name not in self._histories:
            self._histories[job.name] = _JobHistory(since=self._began if self._began is not None else time.monotonic())
        return self._histories[job.name]

    def sample(self, jobs: Sequence[WatchedJob]) -> None:
        """Note which ranks are inside a call now."""
        now = time.monotonic()
        passed = now - self._sampled
        if passed < _SECONDS_PER_RANK * sum(len(job.ranks) for job in jobs):
            return
        self._sampled = now
        for job in jobs:
            history = self._history_of(job)
            for rank, watched in job.ranks.items():
                if not watched.process.ended_ns:
                    history.shares.add(rank, is_inside=watched.reader.is_inside(), seconds=passed)

    def views(self, jobs: Sequence[WatchedJob]) -> list[JobView]:
        """Return what is to be shown of each job that has a rank left; of the last one if none has."""
        shown = [job for job in jobs if not job.has_ended()] or list(jobs)[-1:]
        return [self._view(job, self._history_of(job)) for job in shown]

    def _view(self, job: WatchedJob, history: _JobHistory) -> JobView:
        now = time.monotonic()
        glances = job.glances(_RECENT if len(job.ranks) <= _MANY_RANKS else _FEW_RECENT)
        _note_glances(history, glances, now)
        site = _busiest_site(history)
        rates = _rates(history, site)
        last, by_ms, shares = _who_is_last(history)
        here = socket.gethostname() if job.is_spread else ""
        ranks = []
        for rank in job.shown_ranks():
            glance = glances.get(rank)
            if glance is None:
                ranks.append(RankView(rank=rank, state="absent", detail="has not joined the job yet"))
                continue
            told, view = glance.share_in_calls, _rank_view(job, rank, glance)
            if view.state in ("running", "waiting"):
                view = replace(
                    view,
                    steps_per_second=rates.get(rank),
                    share_in_calls=told if told is not None else history.shares.share(rank),
                    share_last=shares.get(rank, 0.0) if shares else None,
                )
            ranks.append(replace(view, host=job.host_of(rank) or here))
        steps = [history.counts[rank].get(site, 0) for rank in history.counts] if site else []
        return JobView(
            world_size=job.world_size, seconds=now - history.since, ranks=tuple(ranks), step_site=site,
            steps=min(steps, default=0), last_rank=last, last_by_ms=by_ms,
            waited_for=_waited_for(job, history, ranks, now),
        )  # fmt: skip


def _note_glances(history: _JobHistory, glances: Mapping[int, Glance], now: float) -> None:
    entered: dict[tuple[str, int], dict[int, int]] = {}  # (communicator, sequence) -> rank -> when it entered
    sizes: dict[str, int] = {}
    history.error_ns = 0
    for rank, glance in glances.items():
        if glance.counts is not None:
            history.counts.setdefault(rank, {}).update(glance.counts)
        history.error_ns = max(history.error_ns, glance.error_ns)
        for arrival in glance.arrivals:
            sizes[arrival.communicator] = arrival.size
            entered.setdefault((arrival.communicator, arrival.sequence), {})[rank] = arrival.entered_ns
    history.counts_then.append((now, {rank: dict(counts) for rank, counts in history.counts.items()}))
    while len(history.counts_then) > 2 and history.counts_then[1][0] < now - _WINDOW_SECONDS:
        history.counts_then.popleft()
    _compare_arrivals(history, entered, sizes)


def _waited_for(job: WatchedJob, history: _JobHistory, ranks: Sequence[RankView], now: float) -> tuple[int, ...]:
    """Return who is waited for, if anybody has waited for long; from a snapshot, which takes some time."""
    if not any(view.state == "waiting" and view.seconds >= _LONG_SECONDS for view in ranks):
        return ()
    if now - history.waited_for_at >= _SECONDS_PER_WAITED_FOR * len(job.ranks):
        history.waited_for_at = now
        history.waited_for = tuple(sorted(job.waited_for()))
    return history.waited_for


def _compare_arrivals(
    history: _JobHistory, entered: dict[tuple[str, int], dict[int, int]], sizes: dict[str, int]
) -> None:
    """Note who came last to each collective that all members have entered since the last time."""
    for (identity, sequence), times in sorted(entered.items(), key=lambda item: item[0][1]):
        if sequence <= history.compared.get(identity, 0) or len(times) < max(2, sizes[identity]):
            continue
        history.compared[identity] = sequence
        ordered = sorted(times, key=lambda rank: times[rank])
        middle = times[ordered[(len(ordered) - 1) // 2]]
        history.arrivals.append((ordered[-1], (times[ordered[-1]] - middle) / 1e6))


def _who_is_last(history: _JobHistory) -> tuple[int | None, float, dict[int, float]]:
    """Return who is last clearly more often than chance has it, by how many milliseconds, and everybody's share."""
    if not history.arrivals:
        return None, 0.0, {}
    counts = Counter(rank for rank, _ in history.arrivals)
    shares = {rank: count / len(history.arrivals) for rank, count in counts.items()}
    rank, count = counts.most_common(1)[0]
    delays = sorted(delay for late, delay in history.arrivals if late == rank)
    delay = delays[len(delays) // 2]
    if count < 3 or shares[rank] < max(0.4, 1.5 / max(2, len(history.counts))) or delay * 1e6 <= history.error_ns:
        return None, 0.0, shares
    return rank, delay, shares


def _calls_made(history: _JobHistory, rank: int, site: str) -> tuple[int, float]:
    """Return how many calls a rank has made at a line in the last seconds, and in how many.

    They are counted from when its calls there were first known: what it did before anybody looked is not a rate.
    """
    ended, after = history.counts_then[-1]
    for began, before in history.counts_then:
        if site in before.get(rank, {}):
            return after[rank][site] - before[rank][site], ended - began
    return 0, 0.0


def _busiest_site(history: _JobHistory) -> str:
    """Return the line at which most calls were made in the last seconds; if none were, in all."""
    made: Counter[str] = Counter()
    in_all: Counter[str] = Counter()
    for rank, counts in history.counts_then[-1][1].items():
        for site, count in counts.items():
            in_all[site] += count
            made[site] += _calls_made(history, rank, site)[0]
    chosen = (+made or in_all).most_common(1)
    return chosen[0][0] if chosen else ""


def _rates(history: _JobHistory, site: str) -> dict[int, float]:
    rates = {}
    began, _ = history.counts_then[0]
    for rank, counts in history.counts_then[-1][1].items():
        if site in counts:
            num, seconds = _calls_made(history, rank, site)
            rates.update({rank: num / seconds} if seconds >= _RATE_SECONDS else {})
        elif history.counts_then[-1][0] - began >= _RATE_SECONDS:
            rates[rank] = 0.0
    return rates


def _rank_view(job: WatchedJob, rank: int, glance: Glance) -> RankView:
    """Return the state of a rank, and the call that it is inside."""
    end = job.end(rank)
    if end is not None:
        state = "exited" if end.kind is EndKind.ABORTED else end.kind.value
        return RankView(rank=rank, state=state, site=end.site, detail=end.detail)
    if not glance.call:
        return RankView(rank=rank, state="running")
    seconds = max(0.0, (time.monotonic_ns() - glance.entered_ns) / 1e9)
    return RankView(rank=rank, state="waiting", call=glance.call, site=glance.site, seconds=seconds)


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of those that are known.

    >>> mean([1.0, None, 2.0]), mean([None])
    (1.5, None)
    """
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
