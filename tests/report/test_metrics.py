"""Metrics: what the live view knows, by name, value and rank; and what users may ask for."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from paceline.errors import InputError
from paceline.guard.observe.gauges import JobView, RankView
from paceline.report.metrics.exporter import make_exporter
from paceline.report.metrics.loader_work import RecentWork, WorkNotes
from paceline.report.metrics.measures import METRICS, find_measures
from paceline.report.metrics.metrics_output import MetricsOutput, metrics_output

ROOT = Path(__file__).parents[2]
VIEW = JobView(
    world_size=3,
    seconds=12.5,
    steps=40,
    step_site="train.py:8",
    waited_for=(2,),
    last_rank=2,
    last_by_ms=30.0,
    ranks=(
        RankView(rank=0, state="waiting", seconds=1.5, steps_per_second=3.0, share_in_calls=0.7, share_last=0.0),
        RankView(rank=1, state="waiting", seconds=1.4, steps_per_second=3.0, share_in_calls=0.6, share_last=0.1),
        RankView(rank=2, state="running", steps_per_second=3.1, share_in_calls=0.1, share_last=0.9),
    ),
)
WORK = RecentWork(imbalance_before=1.4, imbalance_after=1.05, padding_share=0.02, waiting_shares={0: 0.5, 1: 0.25})


def measured(*views: JobView, work: RecentWork | None = None) -> dict[tuple[str, str, int], float]:
    return {(each.metric.name, each.of, each.job): each.value for each in find_measures(views, work)}


def test_every_metric_is_measured_when_everything_is_known() -> None:
    names = {name for name, _, _ in measured(VIEW, work=WORK)}
    assert names == {metric.name for metric in METRICS}


def test_values_are_those_of_the_view() -> None:
    found = measured(VIEW, work=WORK)
    assert found["paceline_ranks", "waiting", 0] == 2
    assert found["paceline_ranks", "killed", 0] == 0
    assert found["paceline_waiting_seconds", "1", 0] == 1.4
    assert found["paceline_waiting_seconds", "2", 0] == 0
    assert [found["paceline_waited_for", rank, 0] for rank in "012"] == [0, 0, 1]
    assert found["paceline_late_seconds", "", 0] == pytest.approx(0.03)
    assert found["paceline_imbalance_before", "", 0] == 1.4
    assert found["paceline_data_waiting_ratio", "1", 0] == 0.25


def test_what_is_not_known_is_left_out() -> None:
    quiet = JobView(world_size=1, seconds=1.0, ranks=(RankView(rank=0, state="running"),))
    names = {name for name, _, _ in measured(quiet)}
    assert not names & {"paceline_steps_per_second", "paceline_in_calls_ratio", "paceline_padding_ratio"}


def test_jobs_of_one_run_are_told_apart() -> None:
    found = measured(VIEW, VIEW)
    assert found["paceline_steps", "", 1] == found["paceline_steps", "", 0]


def test_notes_of_loaders_are_read_while_they_are_written(tmp_path: Path) -> None:
    path, notes = tmp_path / "work.77.jsonl", WorkNotes(tmp_path)
    assert notes.recent() is None
    now = time.monotonic_ns()
    step = {"loader": 0, "at_ns": now, "step": 0, "rows": 4, "real": 3, "waited_us": 0}
    begin = json.dumps({"loader": 0, "at_ns": now, "pass": 0, "rank": 5})
    path.touch(mode=0o600)
    path.write_text(f"{begin}\n{json.dumps(step)}\n{json.dumps(step)[:20]}")
    first = notes.recent()
    assert first is not None
    assert (first.padding_share, first.imbalance_before, first.waiting_shares) == (0.25, None, {})
    with path.open("a") as file:
        file.write(json.dumps({**step, "at_ns": now + 1_000_000, "real": 4, "waited_us": 250})[20:] + "\n")
    second = notes.recent()
    assert second is not None
    assert (second.padding_share, second.waiting_shares) == (0.125, {5: 0.25})


def test_old_notes_say_nothing_about_now(tmp_path: Path) -> None:
    long_ago = time.monotonic_ns() - 3600 * 10**9
    step = {"loader": 0, "at_ns": long_ago, "step": 0, "rows": 4, "real": 3, "waited_us": 0}
    path = tmp_path / "work.77.jsonl"
    path.touch(mode=0o600)
    path.write_text(json.dumps({"loader": 0, "at_ns": long_ago, "pass": 0, "rank": 0}) + f"\n{json.dumps(step)}\n")
    assert WorkNotes(tmp_path).recent() is None


def test_an_unknown_kind_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InputError, match=r"prometheus, tensorboard, wandb, opentelemetry.*'carbon'"):
        make_exporter("carbon")


def test_under_the_guard_no_exporter_may_start_processes() -> None:
    with pytest.raises(InputError, match=re.escape("use paceline watch --metrics wandb:here")):
        metrics_output(["wandb:here"], print, is_guard=True)


class BrokenExporter:
    """An exporter whose disk is full."""

    def export(self, measures: object, *, seconds: float) -> None:
        raise OSError("no space left")

    def close(self) -> None:
        raise AssertionError("it was given up")


def test_a_fault_of_an_exporter_is_told_once_and_never_raised() -> None:
    told: list[str] = []
    with MetricsOutput({"broken": BrokenExporter()}, told.append) as output:
        output.export_all((), seconds=0.0)
        output.export_all((), seconds=1.0)
    assert told == ["paceline: broken: no more metrics: OSError: no space left"]


def test_the_dashboard_draws_every_metric_and_no_other() -> None:
    text = (ROOT / "examples" / "grafana" / "paceline.json").read_text()
    panels = json.loads(text)["panels"]
    drawn = {
        name for panel in panels for target in panel["targets"] for name in re.findall(r"paceline_\w+", target["expr"])
    }
    assert drawn == {metric.name for metric in METRICS}


def test_every_metric_is_in_the_document() -> None:
    rows = dict(
        re.findall(r"^\| `(paceline_\w+)` \| (.*?) \|", (ROOT / "docs" / "metrics.md").read_text(), flags=re.MULTILINE)
    )
    assert rows == {metric.name: metric.text for metric in METRICS}
