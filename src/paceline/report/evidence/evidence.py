"""All that the files of a run show when they are put together. The page and the trace are both made from it."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.report.evidence.call_table import Calls, gather_calls
from paceline.report.evidence.run_files import RunFiles
from paceline.report.evidence.steps import Steps, find_steps
from paceline.report.evidence.waiting import Waits, find_waits
from paceline.report.evidence.waiting_costs import Costs, find_costs
from paceline.report.evidence.work import Work, find_work

_MAX_NS = 1 << 62  # a broken file may name any time


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was recorded of a run, and what follows from it."""

    calls: Calls
    waits: Waits
    costs: Costs
    steps: Steps | None
    work: Work | None
    out_of_line: tuple[int, ...]  # the ranks of the finding


def gather_evidence(run: RunFiles) -> Evidence | None:
    """Put together what was recorded; None if no record of a rank could be read."""
    if not run.ranks:
        return None
    ended = run.about.get("ended_ns")
    calls = gather_calls(run.ranks, ended if isinstance(ended, int) and 0 <= ended < _MAX_NS else None)
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
