"""What the doctor saw of a job, as a page: the verdict, and what cannot be said. There is no record to draw."""

from __future__ import annotations

import time

from paceline.doctor.observed_job import Diagnosis
from paceline.guard.run.kept_source import keep_lines
from paceline.report.page.page_values import Page, PageVerdict
from paceline.report.page.rank_cards import rank_card, sentence


def page_of_diagnosis(diagnosis: Diagnosis) -> Page:
    """Return the page of a job that was looked at from outside."""
    job = diagnosis.job
    size = f"{len(job.ranks)} of {job.world_size}" if job.world_size is not None else f"{len(job.ranks)} processes"
    header = (
        ("job", job.name),
        ("ranks", f"{size}, by {job.ranks_from}"),
        ("looked at", time.strftime("%Y-%m-%d %H:%M:%S %z")),
    )
    return Page(title=f"doctor: {job.name}", header=header, verdict=_verdict(diagnosis), missing=job.notes)


def _verdict(diagnosis: Diagnosis) -> PageVerdict:
    finding = diagnosis.finding
    folder = diagnosis.job.ranks[0].cwd if diagnosis.job.ranks else ""
    sources = keep_lines((folder, group.site) for group in diagnosis.groups if group.site)
    out_of_line = finding.ranks if finding is not None else ()
    groups = tuple(rank_card(group, sources, out_of_line=out_of_line) for group in diagnosis.groups)
    notes = tuple(
        [sentence(f"{text}.") for text in diagnosis.says] + [f"Cannot say {text}." for text in diagnosis.cannot]
    )
    if finding is None:
        summary = "Nothing is provably out of line."
        return PageVerdict(tone="plain", label="no finding", summary=summary, groups=groups, notes=notes)
    return PageVerdict(
        tone="bad", label=finding.kind, summary=sentence(finding.summary), groups=groups, cause=finding.cause,
        cause_text=finding.cause.sentence, advice=sentence(finding.advice), notes=notes,
    )  # fmt: skip
