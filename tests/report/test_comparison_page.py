"""The page of a comparison: what is better, what is worse, and how the sides differ."""

from __future__ import annotations

from paceline.bench.results.compare import FigureComparison
from paceline.report.page.comparison_page import page_of_comparison
from paceline.report.page.render import render_page

RATE = FigureComparison(name="metric.rate", first=(10.0, 11.0), second=(20.0, 22.0), more_is_better=True)
TIME = FigureComparison(name="paceline.seconds", first=(1.0, 1.1), second=(3.0, 3.1), more_is_better=False)
SAME = FigureComparison(name="metric.same", first=(1.0, 2.0), second=(1.5, 1.6), more_is_better=True)


def test_figures_beyond_the_spread_are_named() -> None:
    page = page_of_comparison([RATE, TIME, SAME], ["format: npz against tfrecord"], ("a", "<b>"))
    assert page.verdict is not None
    assert page.verdict.summary == "B is better in rate and worse in seconds."
    assert page.verdict.tone == "warn"
    assert dict(page.figures)["rate"] == "10 to 11 against 20 to 22, B/A 2.000 (1.818 to 2.200): better"
    text = render_page(page)
    assert "The sides differ in format: npz against tfrecord." in text
    assert "<dd>&lt;b&gt;</dd>" in text


def test_equal_sides_say_so() -> None:
    page = page_of_comparison([SAME], [], ("a", "b"))
    assert page.verdict is not None
    assert page.verdict.summary == "Nothing differs by more than runs of one side do."
