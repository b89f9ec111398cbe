"""From views of a run, and what its loaders have noted, to measures: names, values and the rank of each.

Pure: it knows neither files nor the packages that measures are handed to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from paceline.guard.observe.gauges import JobView, RankView
from paceline.report.metrics.loader_work import RecentWork

_STATES = ("running", "waiting", "absent", "exited", "raised", "killed")


class Label(StrEnum):
    """By what the values of a metric differ."""

    NONE = ""
    RANK = "rank"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetric:
    """One thing that is measured.

    Attributes:
        name: As Prometheus has names: the unit comes last.
        text: What it is, in a sentence.
        label: By what its values differ.
    """

    name: str
    text: str
    label: Label = Label.NONE


RANKS = RunMetric(name="paceline_ranks", text="Ranks in each state.", label=Label.STATE)
SECONDS = RunMetric(name="paceline_run_seconds", text="Time since the run began.")
STEPS = RunMetric(name="paceline_steps", text="Steps of the rank that has made the fewest.")
RATE = RunMetric(name="paceline_steps_per_second", text="Steps per second over the last ten seconds.", label=Label.RANK)
IN_CALLS = RunMetric(
    name="paceline_in_calls_ratio",
    text="Share of the last seconds that a rank spent inside calls: waiting for others, and moving data.",
    label=Label.RANK,
)
WAITING = RunMetric(
    name="paceline_waiting_seconds", text="How long a rank has been in its call; 0 if it is in none.", label=Label.RANK
)
WAITED_FOR = RunMetric(
    name="paceline_waited_for", text="1 if others have waited for this rank for a second or more.", label=Label.RANK
)
LAST = RunMetric(
    name="paceline_last_ratio", text="Share of the last 200 calls that a rank entered last.", label=Label.RANK
)
LATE = RunMetric(
    name="paceline_late_seconds",
    text="How long after the median rank the rank comes that is mostly last; 0 if none is.",
)
IMBALANCE_BEFORE = RunMetric(
    name="paceline_imbalance_before", text="Work of the busiest rank over the mean, as samples were dealt."
)
IMBALANCE_AFTER = RunMetric(
    name="paceline_imbalance_after", text="Work of the busiest rank over the mean, after balancing."
)
PADDING = RunMetric(name="paceline_padding_ratio", text="Share of the rows of the last steps that is padding.")
DATA_WAITING = RunMetric(
    name="paceline_data_waiting_ratio",
    text="Share of the last seconds that a rank waited for its loader.",
    label=Label.RANK,
)
METRICS = (
    RANKS, SECONDS, STEPS, RATE, IN_CALLS, WAITING, WAITED_FOR, LAST, LATE,
    IMBALANCE_BEFORE, IMBALANCE_AFTER, PADDING, DATA_WAITING,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One value.

    Attributes:
        metric: Of what.
        value: How much.
        of: The rank or the state that it is of, as text; empty if the metric has no label.
        job: Which job of the run, counted from 0: a run may have several.
    """

    metric: RunMetric
    value: float
    of: str = ""
    job: int = 0


def find_measures(views: Sequence[JobView], work: RecentWork | None = None) -> tuple[Measure, ...]:
    """Return the measures of all jobs; what is not known is left out.

    Args:
        views: What the live view would show.
        work: What loaders have noted lately; it counts for the first job.
    """
    found: list[Measure] = []
    for job, view in enumerate(views):
        found += _of_job(view, job)
        for rank in view.ranks:
            found += _of_rank(rank, view, job)
    if work is not None and views:
        found += _of_work(work)
    return tuple(found)


def _of_job(view: JobView, job: int) -> Iterator[Measure]:
    states = Counter(rank.state for rank in view.ranks)
    for state in _STATES:
        yield Measure(metric=RANKS, value=states[state], of=state, job=job)
    yield Measure(metric=SECONDS, value=view.seconds, job=job)
    yield Measure(metric=STEPS, value=view.steps, job=job)
    yield Measure(metric=LATE, value=view.last_by_ms / 1e3, job=job)


def _of_rank(rank: RankView, view: JobView, job: int) -> Iterator[Measure]:
    values = {
        RATE: rank.steps_per_second,
        IN_CALLS: rank.share_in_calls,
        WAITING: rank.seconds if rank.state == "waiting" else 0.0,
        WAITED_FOR: float(rank.rank in view.waited_for),
        LAST: rank.share_last,
    }
    return _known(values.items(), of=str(rank.rank), job=job)


def _of_work(work: RecentWork) -> Iterator[Measure]:
    values = {
        IMBALANCE_BEFORE: work.imbalance_before,
        IMBALANCE_AFTER: work.imbalance_after,
        PADDING: work.padding_share,
    }
    yield from _known(values.items())
    for rank, share in work.waiting_shares.items():
        yield Measure(metric=DATA_WAITING, value=share, of=str(rank))


def _known(values: Iterable[tuple[RunMetric, float | None]], *, of: str = "", job: int = 0) -> Iterator[Measure]:
    for metric, value in values:
        if value is not None:
            yield Measure(metric=metric, value=value, of=of, job=job)


def flat_name(measure: Measure) -> str:
    """Return a name for tools without labels: what it is, then of whom.

    >>> flat_name(Measure(metric=RATE, value=2.0, of="3"))
    'paceline/steps_per_second/rank 3'
    >>> flat_name(Measure(metric=STEPS, value=2.0, job=1))
    'paceline world 1/steps'
    """
    group = "paceline" if measure.job == 0 else f"paceline world {measure.job}"
    name = measure.metric.name.removeprefix("paceline_")
    of = {Label.NONE: "", Label.RANK: f"/rank {measure.of}", Label.STATE: f"/{measure.of}"}[measure.metric.label]
    return f"{group}/{name}{of}"
