"""What a page shows beside the verdict: figures of a benchmark, stacks of the doctor, and lines of the user's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.report.evidence.bench_result import read_bench_result
from paceline.report.evidence.run_files import RunFiles
from paceline.report.evidence.waiting_costs import is_own_site
from paceline.report.page.page_values import Page, PageVerdict, RankStacks, ShownFrame, ShownThread
from paceline.report.page.render import render_page
from paceline.report.page.run_page import page_of_run


def bench_records(folder: Path, *, reached: str) -> Path:
    """Write a summary as `paceline bench run` does, and return the folder of the records below it."""
    records = folder / "records" / "20261117-100000"
    records.mkdir(parents=True)
    metric = {
        "train_au_mean_percentage": 61.25, "train_au_expected_percentage": 90.0, "train_au_meet_expectation": reached,
        "train_throughput_mean_samples_per_second": 1234.5, "train_io_mean_MB_per_second": 98.7,
    }  # fmt: skip
    (folder / "summary.json").write_text(json.dumps({"workload": "unet3d", "outcome": "ok", "metric": metric}))
    return records


@pytest.mark.parametrize(
    ("reached", "tone", "label"), [("fail", "warn", "below its target"), ("success", "good", "ended well")]
)
def test_a_benchmark_below_its_target_does_not_read_as_one_that_ended_well(
    tmp_path: Path, reached: str, tone: str, label: str
) -> None:
    records = bench_records(tmp_path, reached=reached)
    run = RunFiles(folder=records, diagnosis={"outcome": "ok"}, world_size=2, bench=read_bench_result(records))
    page = page_of_run(run)
    assert page.verdict is not None
    assert (page.verdict.tone, page.verdict.label) == (tone, label)
    assert page.figures[0] == ("utilisation of the accelerators (target 90%)", "61.2%")
    assert ("samples per second", "1,234.5") in page.figures


def test_what_is_no_benchmark_or_damaged_has_no_figures_of_one(tmp_path: Path) -> None:
    assert read_bench_result(tmp_path) is None
    records = bench_records(tmp_path, reached="fail")
    (tmp_path / "summary.json").write_text('{"metric": [1, 2]}')
    assert read_bench_result(records) is None


def test_our_own_files_are_not_places_of_the_user(tmp_path: Path) -> None:
    assert is_own_site("/opt/env/lib/python3.12/site-packages/paceline/loader/loss.py:77")
    assert not is_own_site("/home/me/paceline/loader/train.py:77")
    assert not is_own_site("train.py:3")


def test_the_doctors_page_has_the_stacks() -> None:
    frames = (
        ShownFrame(function="c10d::Work::wait", place="libtorch_cpu.so", is_native=True),
        ShownFrame(function="all_reduce", place="torch/distributed/distributed_c10d.py:3252", is_native=False),
        ShownFrame(function="main", place="<train>.py:12", is_native=False),
    )
    thread = ShownThread(name="main thread", frames=frames)
    html = render_page(Page(title="doctor", stacks=(RankStacks(ranks="ranks 0-2", threads=(thread,)),)))
    assert "ranks 0-2" in html
    assert "&lt;train&gt;.py:12" in html
    assert html.index("all_reduce") < html.index("&lt;train&gt;.py:12")


@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        ("rank 1 left `for x in <a>` early", "rank 1 left <code>for x in &lt;a&gt;</code> early"),
        ("one ` alone is text", "one ` alone is text"),
    ],
)
def test_code_in_a_verdict_is_shown_as_code(summary: str, shown: str) -> None:
    html = render_page(Page(title="run", verdict=PageVerdict(tone="bad", label="mismatch", summary=summary)))
    assert f'<h1 id="verdict-title">{shown}</h1>' in html
