"""The page of a run: from the files that it has left to the values of a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from paceline.errors import name_ranks
from paceline.report.evidence.call_table import Calls, gather_calls
from paceline.report.evidence.run_files import RunFiles
from paceline.report.evidence.steps import Steps, find_steps
from paceline.report.evidence.waiting import Waits, find_waits
from paceline.report.evidence.waiting_costs import Costs, find_costs
from paceline.report.evidence.work import Work, find_work
from paceline.report.page.charts import seconds_text
from paceline.report.page.page_values import Page, Verdict
from paceline.report.page.run_verdict import lines_around, run_verdict
from paceline.report.page.timeline import TICK_NS, timeline_values

_MOST_LINED_SITES = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the files of a run say when they are put together."""

    calls: Calls
    waits: Waits
    costs: Costs
    steps: Steps | None
    work: Work | None
    out_of_line: tuple[int, ...]


def gather_evidence(run: RunFiles) -> Evidence | None:
    """Put together what was recorded; None if no record of a rank could be read."""
    if not run.ranks:
        return None
    ended = run.about.get("ended_ns")
    calls = gather_calls(run.ranks, ended if isinstance(ended, int) else None)
    out_of_line = run.finding.ranks if run.finding is not None else ()
    waits = find_waits(calls, out_of_line)
    notes = {record.rank: run.work[record.pid] for record in run.ranks.values() if record.pid in run.work}
    return Evidence(
        calls=calls,
        waits=waits,
        costs=find_costs(calls, waits),
        steps=find_steps(calls, notes),
        work=find_work(notes),
        out_of_line=out_of_line,
    )


def page_of_run(run: RunFiles) -> Page:
    """Return the page of a run, with what there is of it."""
    evidence = gather_evidence(run)
    calls = None if evidence is None else evidence.calls
    verdict = run_verdict(run, calls)
    timeline = None
    if evidence is not None:
        focused = [group.focus[0] for group in (*verdict.groups, *verdict.divergence) if group.focus is not None]
        timeline = timeline_values(
            evidence.calls, evidence.waits, costs=evidence.costs, steps=evidence.steps, ends=run.ends,
            out_of_line=evidence.out_of_line, shown=focused, lines=_lines(run, evidence.calls.sites),
        )  # fmt: skip
        timeline |= {"is_finding": run.finding is not None, "divergence": _mark(evidence.calls, verdict)}
    return Page(
        title=f"paceline: {verdict.label}",
        facts=_facts(run, calls),
        verdict=verdict,
        figures=() if evidence is None or run.finding is not None else _figures(evidence),
        timeline=timeline if calls is not None and len(calls) else None,
        costs=None if evidence is None or not len(evidence.calls) else evidence.costs,
        steps=None if evidence is None else evidence.steps,
        work=None if evidence is None else evidence.work,
        missing=(*run.missing, *_not_kept(run)),
    )


def _mark(calls: Calls, verdict: Verdict) -> dict[str, int] | None:
    """Return where on the timeline ranks parted: when the first came there, and with which of its calls."""
    found = []
    for group in verdict.divergence:
        if group.focus is not None:
            part = calls.of_rank(group.focus[0])
            index = part.start + int(np.flatnonzero(calls.number[part] == group.focus[1])[0])
            found.append((int(calls.entered[index]) // TICK_NS, group.focus[1]))
    if not found:
        return None
    return {"at": min(at for at, _ in found), "number": min(number for _, number in found)}


def _facts(run: RunFiles, calls: Calls | None) -> tuple[tuple[str, str], ...]:
    facts = []
    command = run.about.get("command")
    if isinstance(command, list):
        facts.append(("command", shlex.join(map(str, command))))
    if run.world_size:
        facts.append(("ranks", f"{run.world_size:,}"))
    if run.about.get("ended"):
        facts.append(("ended", _when(str(run.about["ended"]))))
    if calls is not None:
        facts.append(("lasted", f"{seconds_text(calls.end / 1e9)} from the first rank's joining"))
        facts.append(("calls", f"{sum(record.num_calls for record in run.ranks.values()):,}"))
    return tuple(facts)


def _figures(evidence: Evidence) -> tuple[tuple[str, str], ...]:
    """Return what is worth knowing of a run that nothing was wrong with."""
    figures = []
    costs, work = evidence.costs, evidence.work
    if costs.ranks and costs.seconds and len(evidence.calls):
        waited = sum(cost.seconds_waited for cost in costs.ranks) / len(evidence.calls.ranks)
        figures.append(("of its time a rank waited for others", f"{waited / costs.seconds:.1%}"))
        most = max(costs.ranks, key=lambda cost: cost.seconds_caused)
        if most.seconds_caused > 0:
            figures.append(("others waited longest for", f"rank {most.rank}"))
    times = [] if evidence.steps is None else [seconds for seconds in evidence.steps.seconds.values() if len(seconds)]
    if times:
        figures.append(("median step", seconds_text(float(np.median(np.concatenate(times))))))
    if work is not None:
        even = [(step.imbalance_before, step.imbalance_after) for step in work.steps]
        known = [(before, after) for before, after in even if before is not None and after is not None]
        if known:
            before, after = (sum(values) / len(known) for values in zip(*known, strict=True))
            figures.append(("imbalance, as loaded and after balancing", f"{before:.2f} → {after:.2f}"))
        for name in ("dropped", "repeated"):
            count = sum(epoch.counts.get(f"num_{name}", 0) for epoch in work.epochs)
            figures.append((f"samples {name}", f"{count:,}"))
    return tuple(figures)


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
    kept = max(len(run.ranks[rank].calls) for rank in ranks)
    return [f"{name_ranks(ranks)}: a record keeps the last {kept:,} calls; earlier ones are not shown or counted"]


def _lines(run: RunFiles, sites: Sequence[str]) -> Mapping[str, list[list[Any]]]:
    found = {site: lines_around(run.sources, site, around=2) for site in sites[:_MOST_LINED_SITES]}
    return {site: [[line.number, line.text, line.is_site] for line in lines] for site, lines in found.items() if lines}
