"""What a live view shows of a run, read from the same rings as the judge reads: states, rates, who waits, who is last.

Nothing is asked of the ranks. How long ranks are in calls is sampled; the rest comes from their last few records.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from paceline.guard.observe.watched_job import Rank, World
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_CODE, Family, shown_name
from paceline.guard.verdict.snapshot import EndKind
from paceline.guard.verdict.waited_for import ranks_waited_for

_WINDOW_SECONDS = 10.0  # over which rates are taken
_FADE_SECONDS = 5.0  # how fast the past fades from the share of time in calls
_SECONDS_PER_RANK = 200e-6  # a sample is at most one per so long and rank, so that thousands cost no more
_RECENT, _FEW_RECENT, _MANY_RANKS = 32, 8, 256  # records of a rank that are read for each view, and for many ranks
_SECONDS_PER_WANTED = 5e-3  # who is waited for is worked out at most once per so long and rank
_KEPT_ARRIVALS = 200
_LONG_SECONDS = 1.0  # a wait from which on it is shown who is waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank as it is shown."""

    rank: int
    state: str  # waiting, running, exited, raised, killed, absent
    call: str = ""
    site: str = ""
    seconds: float = 0.0  # since it is inside that call
    steps_per_second: float | None = None
    share_in_calls: float | None = None
    share_last: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job of a run as it is shown."""

    world_size: int
    seconds: float  # since the run began, or the first rank was seen
    ranks: tuple[RankView, ...]
    step_site: str = ""  # the line whose passes are counted as steps
    steps: int = 0  # by the rank that has the fewest
    waited_for: tuple[int, ...] = ()
    last_rank: int | None = None  # the one that most often enters a collective last
    last_by_ms: float = 0.0  # by how much, the middle of its cases


@dataclass(slots=True)
class _Job:
    """What is remembered of one job between views."""

    since: float
    shares: dict[int, float] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)
    counts: dict[int, dict[str, int]] = field(default_factory=dict)  # rank -> line -> calls made there
    passes: deque[tuple[float, dict[int, dict[str, int]]]] = field(default_factory=deque)
    counted: dict[str, int] = field(default_factory=dict)  # communicator -> last position whose arrivals were compared
    wanted: tuple[int, ...] = ()
    wanted_at: float = 0.0
    arrivals: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_KEPT_ARRIVALS))


class Gauges:
    """Takes samples at every look, and makes a view of them when asked."""

    def __init__(self, began: float | None = None) -> None:
        self._began = began  # when the run began, by the monotonic clock; None: when each job is first seen
        self._jobs: dict[str, _Job] = {}
        self._sampled = 0.0

    def _job(self, world: World) -> _Job:
        if world.name not in self._jobs:
            self._jobs[world.name] = _Job(since=self._began if self._began is not None else time.monotonic())
        return self._jobs[world.name]

    def sample(self, worlds: Sequence[World]) -> None:
        """Note which ranks are inside a call now."""
        now = time.monotonic()
        passed = now - self._sampled
        if passed < _SECONDS_PER_RANK * sum(len(world.ranks) for world in worlds):
            return
        self._sampled = now
        keep = max(0.0, 1.0 - passed / _FADE_SECONDS)
        for world in worlds:
            job = self._job(world)
            for rank, held in world.ranks.items():
                if not held.process.ended_ns:
                    job.shares[rank] = job.shares.get(rank, 0.0) * keep + held.reader.is_inside() * (1.0 - keep)
                    job.weights[rank] = job.weights.get(rank, 0.0) * keep + (1.0 - keep)

    def views(self, worlds: Sequence[World]) -> list[JobView]:
        """Return what is to be shown of each job that has a rank left; of the last one if none has."""
        shown = [world for world in worlds if not world.has_ended()] or list(worlds)[-1:]
        return [self._view(world, self._job(world)) for world in shown]

    def _view(self, world: World, job: _Job) -> JobView:
        now = time.monotonic()
        self._read_records(world, job, now)
        site = _busiest_site(job)
        rates = _rates(job, site)
        last, by_ms, shares = _who_is_last(job)
        ranks = []
        for rank in range(world.world_size):
            held = world.ranks.get(rank)
            if held is None:
                ranks.append(RankView(rank=rank, state="absent", detail="has not joined the job yet"))
                continue
            weight = job.weights.get(rank, 0.0)
            ranks.append(
                _rank_view(
                    world, rank, held,
                    steps_per_second=rates.get(rank),
                    share_in_calls=job.shares[rank] / weight if weight > 0 else None,
                    share_last=shares.get(rank, 0.0) if shares else None,
                )
            )  # fmt: skip
        steps = [job.counts[rank].get(site, 0) for rank in job.counts] if site else []
        return JobView(
            world_size=world.world_size, seconds=now - job.since, ranks=tuple(ranks), step_site=site,
            steps=min(steps, default=0), last_rank=last, last_by_ms=by_ms,
            waited_for=_waited_for(world, job, ranks, now),
        )  # fmt: skip

    def _read_records(self, world: World, job: _Job, now: float) -> None:
        entered: dict[tuple[str, int], dict[int, int]] = {}
        sizes: dict[str, int] = {}
        for rank, held in world.ranks.items():
            reader = held.reader
            reader.read_texts()
            counts = job.counts.setdefault(rank, {})
            for call in reader.recent(_RECENT if len(world.ranks) <= _MANY_RANKS else _FEW_RECENT):
                operation = BY_CODE.get(call.operation)
                if operation is None:
                    continue  # half of a record that is being written
                counts[reader.site(call.site)] = call.at_site
                known = reader.communicators.get(call.communicator)
                if operation.family is Family.COLLECTIVE and known is not None:
                    identity = known.identity
                    sizes[identity] = known.size
                    entered.setdefault((identity, call.sequence), {})[rank] = call.entered_ns
        job.passes.append((now, {rank: dict(counts) for rank, counts in job.counts.items()}))
        while len(job.passes) > 2 and job.passes[1][0] < now - _WINDOW_SECONDS:
            job.passes.popleft()
        _compare_arrivals(job, entered, sizes)


def _waited_for(world: World, job: _Job, ranks: Sequence[RankView], now: float) -> tuple[int, ...]:
    """Return who is waited for, if anybody has waited for long; from a snapshot, which takes some time."""
    if not any(view.state == "waiting" and view.seconds >= _LONG_SECONDS for view in ranks):
        return ()
    if now - job.wanted_at >= _SECONDS_PER_WANTED * len(world.ranks):
        job.wanted_at = now
        job.wanted = tuple(sorted(ranks_waited_for(world.snapshot(history=0))))
    return job.wanted


def _compare_arrivals(job: _Job, entered: dict[tuple[str, int], dict[int, int]], sizes: dict[str, int]) -> None:
    """Note who came last to each collective that all members have entered since the last time."""
    for (identity, sequence), times in sorted(entered.items(), key=lambda item: item[0][1]):
        if sequence <= job.counted.get(identity, 0) or len(times) < max(2, sizes[identity]):
            continue
        job.counted[identity] = sequence
        ordered = sorted(times, key=lambda rank: times[rank])
        middle = times[ordered[(len(ordered) - 1) // 2]]
        job.arrivals.append((ordered[-1], (times[ordered[-1]] - middle) / 1e6))


def _who_is_last(job: _Job) -> tuple[int | None, float, dict[int, float]]:
    """Return who is last clearly more often than chance has it, by how many milliseconds, and everybody's share."""
    if not job.arrivals:
        return None, 0.0, {}
    counts = Counter(rank for rank, _ in job.arrivals)
    shares = {rank: count / len(job.arrivals) for rank, count in counts.items()}
    rank, count = counts.most_common(1)[0]
    delays = sorted(delay for late, delay in job.arrivals if late == rank)
    if count < 3 or shares[rank] < max(0.4, 1.5 / max(2, len(job.counts))):
        return None, 0.0, shares
    return rank, delays[len(delays) // 2], shares


def _busiest_site(job: _Job) -> str:
    """Return the line at which most calls were made in the last seconds; if none were, in all."""
    _, before = job.passes[0]
    _, after = job.passes[-1]
    made: Counter[str] = Counter()
    in_all: Counter[str] = Counter()
    for rank, counts in after.items():
        for site, count in counts.items():
            in_all[site] += count
            made[site] += count - before.get(rank, {}).get(site, 0)
    chosen = (+made or in_all).most_common(1)
    return chosen[0][0] if chosen else ""


def _rates(job: _Job, site: str) -> dict[int, float]:
    began, before = job.passes[0]
    ended, after = job.passes[-1]
    if not site or ended - began < 0.2:
        return {}
    return {
        rank: (counts.get(site, 0) - before[rank].get(site, 0)) / (ended - began)
        for rank, counts in after.items()
        if rank in before
    }


def _rank_view(
    world: World,
    rank: int,
    held: Rank,
    *,
    steps_per_second: float | None,
    share_in_calls: float | None,
    share_last: float | None,
) -> RankView:
    end = world.end(rank)
    if end is not None:
        state = "exited" if end.kind is EndKind.ABORTED else end.kind.value
        return RankView(rank=rank, state=state, site=end.site, detail=end.detail)
    waiting = next((found for found in held.reader.threads() if found is not None), None)
    inside = waiting is not None and held.reader.word(layout.LOST) & layout.LOST_THREADS == 0
    if waiting is None or not inside:
        return RankView(
            rank=rank, state="running", steps_per_second=steps_per_second, share_in_calls=share_in_calls,
            share_last=share_last,
        )  # fmt: skip
    call = waiting.call
    return RankView(
        rank=rank, state="waiting", call=shown_name(call.operation), site=call.site,
        seconds=max(0.0, (time.monotonic_ns() - call.entered_ns) / 1e9),
        steps_per_second=steps_per_second, share_in_calls=share_in_calls, share_last=share_last,
    )  # fmt: skip


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of those that are known.

    >>> mean([1.0, None, 2.0]), mean([None])
    (1.5, None)
    """
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
