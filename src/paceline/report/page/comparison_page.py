"""Two sides of a benchmark as a page: which figures are better, worse or within the spread."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.bench.results.compare import FigureComparison
from paceline.report.page.page_values import Page, PageVerdict
from paceline.report.text.bench_text import range_text


def page_of_comparison(
    comparisons: Sequence[FigureComparison], differences: Sequence[str], names: tuple[str, str]
) -> Page:
    """Return the page that compares B with A.

    Args:
        comparisons: The figures that both sides have.
        differences: How else the sides differ.
        names: The folders of A and B.
    """
    return Page(
        title=f"bench: {names[1]} against {names[0]}",
        header=(("A", names[0]), ("B", names[1])),
        verdict=_comparison_verdict(comparisons, differences),
        figures=tuple((_figure_name(each), _figure_text(each)) for each in comparisons),
    )


def _comparison_verdict(comparisons: Sequence[FigureComparison], differences: Sequence[str]) -> PageVerdict:
    better, worse = (
        [_figure_name(each) for each in comparisons if each.verdict == word] for word in ("better", "worse")
    )
    parts = [f"{word} in {', '.join(found)}" for word, found in (("better", better), ("worse", worse)) if found]
    tone = "warn" if worse else "good" if better else "plain"
    summary = f"B is {' and '.join(parts)}." if parts else "Nothing differs by more than runs of one side do."
    notes = tuple(f"The sides differ in {difference}." for difference in differences)
    return PageVerdict(tone=tone, label="comparison", summary=summary, notes=notes)


def _figure_name(each: FigureComparison) -> str:
    return each.name.partition(".")[2]


def _figure_text(each: FigureComparison) -> str:
    ratio = "" if each.ratio is None else f", B/A {each.ratio:.3f}"
    spread = "" if each.spread is None else f" ({each.spread[0]:.3f} to {each.spread[1]:.3f})"
    return f"{range_text(each.first)} against {range_text(each.second)}{ratio}{spread}: {each.verdict}"
