"""What the doctor saw of a job, as a page: the verdict, what cannot be said, and the stacks. No record is drawn."""

from __future__ import annotations

import time
from collections.abc import Sequence

from paceline.doctor.observed_job import Diagnosis, SeenRank
from paceline.errors import name_ranks
from paceline.guard.run.kept_source import keep_lines
from paceline.process.native_stacks import Thread
from paceline.report.page.page_values import Page, PageVerdict, RankStacks
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
    return Page(
        title=f"doctor: {job.name}", header=header, verdict=_verdict(diagnosis), stacks=rank_stacks(job.ranks),
        missing=job.notes,
    )  # fmt: skip


def rank_stacks(ranks: Sequence[SeenRank]) -> tuple[RankStacks, ...]:
    """Return the stacks of all ranks; those that are at the same lines share theirs."""
    groups: dict[tuple[tuple[str, tuple[tuple[str, str], ...]], ...], list[int]] = {}
    for seen in ranks:
        groups.setdefault(tuple(map(_thread_frames, seen.second.threads)), []).append(seen.rank)
    return tuple(RankStacks(ranks=name_ranks(members), threads=threads) for threads, members in groups.items())


def _thread_frames(thread: Thread) -> tuple[str, tuple[tuple[str, str], ...]]:
    name = "main thread" if thread.is_main else thread.name
    return name, tuple((frame.function, f"{frame.file}:{frame.line}") for frame in thread.frames)


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
