"""What the doctor saw of a job, as a page: the verdict, and what cannot be said. There is no record to draw."""

from __future__ import annotations

import time

from paceline.doctor.observed_job import Diagnosis
from paceline.errors import name_ranks
from paceline.guard.run.kept_source import KeptLines, keep_lines
from paceline.guard.verdict.finding import RankGroup
from paceline.report.page.page_values import Group, Page, Verdict
from paceline.report.page.run_verdict import lines_around, sentence, shown_state

_AROUND = 4


def page_of_diagnosis(diagnosis: Diagnosis) -> Page:
    """Return the page of a job that was looked at from outside."""
    job = diagnosis.job
    size = f"{len(job.ranks)} of {job.world_size}" if job.world_size is not None else f"{len(job.ranks)} processes"
    facts = (
        ("job", job.name),
        ("ranks", f"{size}, by {job.ranks_from}"),
        ("looked at", time.strftime("%Y-%m-%d %H:%M:%S %z")),
    )
    return Page(title=f"doctor: {job.name}", facts=facts, verdict=_verdict(diagnosis), missing=job.notes)


def _verdict(diagnosis: Diagnosis) -> Verdict:
    finding = diagnosis.finding
    folder = diagnosis.job.ranks[0].cwd if diagnosis.job.ranks else ""
    sources = keep_lines((folder, group.site) for group in diagnosis.groups if group.site)
    odd = set(finding.ranks) if finding is not None else set()
    groups = tuple(_group(group, sources, odd) for group in diagnosis.groups)
    notes = tuple(
        [sentence(f"{text}.") for text in diagnosis.says] + [f"Cannot say {text}." for text in diagnosis.cannot]
    )
    if finding is None:
        said = "Nothing is provably out of line."
        return Verdict(tone="plain", label="no finding", summary=said, groups=groups, notes=notes)
    return Verdict(
        tone="bad", label=finding.kind, summary=sentence(finding.summary), groups=groups, cause=finding.cause,
        cause_text=finding.cause.sentence, advice=sentence(finding.advice), notes=notes,
    )  # fmt: skip


def _group(group: RankGroup, sources: KeptLines, odd: set[int]) -> Group:
    site = group.site or ""
    return Group(
        ranks=name_ranks(group.ranks),
        state=shown_state(group),
        is_out_of_line=odd.issuperset(group.ranks),
        call=group.call or "",
        place=f"on {group.communicator}" if group.communicator else "",
        site=site,
        detail=group.detail,
        source=lines_around(sources, site, around=_AROUND),
    )
