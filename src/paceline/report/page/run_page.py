"""The page of a run: from the files that it has left to the values of a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from paceline.errors import name_ranks
from paceline.report.evidence.call_table import Calls
from paceline.report.evidence.evidence import Evidence, gather_evidence
from paceline.report.evidence.run_files import RunFiles
from paceline.report.page.charts import seconds_text
from paceline.report.page.page_values import Page, PageVerdict
from paceline.report.page.rank_cards import lines_around
from paceline.report.page.run_verdict import page_warnings, run_verdict
from paceline.report.page.timeline import TICK_NS, timeline_values

_MOST_LINED_SITES = 300


def page_of_run(run: RunFiles) -> Page:
    """Return the page of a run, with what there is of it."""
    evidence = gather_evidence(run)
    calls = None if evidence is None else evidence.calls
    verdict = run_verdict(run, calls)
    timeline = None
    if evidence is not None:
        cards = (*verdict.groups, *verdict.first_difference)
        focused = [card.focus[0] for card in cards if card.focus is not None]
        lines = _lines(run, evidence.calls.sites)
        timeline = timeline_values(evidence, ends=run.ends, focused=focused, lines=lines)
        timeline |= {"is_finding": run.finding is not None, "divergence": _first_difference(evidence.calls, verdict)}
    return Page(
        title=f"paceline: {verdict.label}",
        header=_header(run, calls),
        verdict=verdict,
        warnings=page_warnings(run),
        figures=() if run.finding is not None else (*_bench_figures(run), *_figures(evidence)),
        timeline=timeline if calls is not None and len(calls) else None,
        costs=None if evidence is None or not len(evidence.calls) else evidence.costs,
        steps=None if evidence is None else evidence.steps,
        work=None if evidence is None else evidence.work,
        missing=(*run.missing, *_not_kept(run)),
    )


def _first_difference(calls: Calls, verdict: PageVerdict) -> dict[str, Any] | None:
    """Return where the first difference is on the timeline: when the first rank came there, and with which call."""
    times, numbers = [], []
    for card in verdict.first_difference:
        if card.focus is not None:
            rank, number = card.focus
            part = calls.of_rank(rank)
            index = part.start + int(np.flatnonzero(calls.number[part] == number)[0])
            times.append(int(calls.entered[index]) // TICK_NS)
            numbers.append(number)
    if not times:
        return None
    return {"at": min(times), "number": min(numbers), "position": verdict.first_difference_position}


def _header(run: RunFiles, calls: Calls | None) -> tuple[tuple[str, str], ...]:
    header = []
    command = run.about.get("command")
    if isinstance(command, list):
        header.append(("command", shlex.join(map(str, command))))
    if run.world_size:
        header.append(("ranks", f"{run.world_size:,}"))
    if run.about.get("ended"):
        header.append(("ended", _when(str(run.about["ended"]))))
    if calls is not None:
        header.append(("lasted", f"{seconds_text(calls.end / 1e9)} from when the first rank joined"))
        header.append(("calls", f"{sum(record.num_calls for record in run.ranks.values()):,}"))
    return tuple(header)


def _bench_figures(run: RunFiles) -> list[tuple[str, str]]:
    """Return what a benchmark has measured."""
    if run.bench is None:
        return []
    target = "" if run.bench.expected is None else f" (target {run.bench.expected:.0f}%)"
    return [
        (f"utilisation of the accelerators{target}", f"{run.bench.utilisation:.1f}%"),
        ("samples per second", f"{run.bench.samples_per_second:,.1f}"),
        ("read", f"{run.bench.mib_per_second:,.1f} MiB/s"),
    ]


def _figures(evidence: Evidence | None) -> tuple[tuple[str, str], ...]:
    """Return what is worth knowing of a run without a finding: shares of time that were lost first, largest on top."""
    if evidence is None:
        return ()
    shares: list[tuple[float, str]] = []
    figures = []
    costs, work = evidence.costs, evidence.work
    taken = [(epoch.seconds_waiting, epoch.seconds) for epoch in work.epochs] if work is not None else []
    known_waits = [(waiting, seconds) for waiting, seconds in taken if waiting is not None and seconds]
    if known_waits:
        waiting, total = (sum(values) for values in zip(*known_waits, strict=True))
        shares.append((waiting / total, "of each pass was spent waiting for data"))
    if costs.ranks and costs.seconds and len(evidence.calls):
        waited = sum(cost.seconds_waited for cost in costs.ranks) / len(evidence.calls.ranks)
        shares.append((waited / costs.seconds, "of the run was spent waiting for other ranks"))
        most = max(costs.ranks, key=lambda cost: cost.seconds_caused)
        if most.seconds_caused > 0:
            figures.append(("kept the others waiting longest", f"rank {most.rank}"))
    times = [] if evidence.steps is None else [seconds for seconds in evidence.steps.seconds.values() if len(seconds)]
    if times:
        figures.append(("median step", seconds_text(float(np.median(np.concatenate(times))))))
    if work is not None:
        even = [(step.imbalance_before, step.imbalance_after) for step in work.steps]
        known = [(before, after) for before, after in even if before is not None and after is not None]
        if known:
            before, after = (sum(values) / len(known) for values in zip(*known, strict=True))
            figures.append(("imbalance, before and after balancing", f"{before:.2f} → {after:.2f}"))
        for name in ("dropped", "repeated"):
            count = sum(epoch.counts.get(f"num_{name}", 0) for epoch in work.epochs)
            figures.append((f"samples {name}", f"{count:,}"))
    return (*((text, f"{share:.1%}") for share, text in sorted(shares, reverse=True)), *figures)


def _when(text: str) -> str:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z").strftime("%Y-%m-%d %H:%M:%S %z")
    except ValueError:
        return text


def _not_kept(run: RunFiles) -> list[str]:
    """Say of which ranks only the last calls are known."""
    ranks = [record.rank for record in run.ranks.values() if record.num_calls > len(record.calls) + 1]
    ranks = [rank for rank in ranks if not run.ranks[rank].problems]
    if not ranks:
        return []
    most = max(len(run.ranks[rank].calls) for rank in ranks)
    return [f"{name_ranks(ranks)}: a record keeps the last {most:,} calls; earlier ones are not shown or counted"]


def _lines(run: RunFiles, sites: Sequence[str]) -> Mapping[str, list[list[Any]]]:
    around = {site: lines_around(run.sources, site, around=2) for site in sites[:_MOST_LINED_SITES]}
    return {site: [[line.number, line.text, line.is_site] for line in lines] for site, lines in around.items() if lines}
