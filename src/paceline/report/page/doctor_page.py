"""What the doctor saw of a job, as a page: the verdict, what cannot be said, and the stacks. No record is drawn."""

from __future__ import annotations

import time
from collections.abc import Sequence

from paceline.doctor.observed_job import Diagnosis, SeenRank
from paceline.errors import name_ranks
from paceline.guard.run.kept_source import keep_lines
from paceline.process.native_stacks import Frame, Thread
from paceline.report.page.page_values import Page, PageVerdict, RankStacks, ShownFrame, ShownThread
from paceline.report.page.rank_cards import rank_card, sentence

_LONG_NAME = 80  # characters; names of C++ templates have hundreds


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
    groups: dict[tuple[ShownThread, ...], list[int]] = {}
    for seen in ranks:
        threads = tuple(_stack_thread(thread, seen.cwd) for thread in seen.second.threads)
        groups.setdefault(threads, []).append(seen.rank)
    return tuple(RankStacks(ranks=name_ranks(members), threads=threads) for threads, members in groups.items())


def _stack_thread(thread: Thread, folder: str) -> ShownThread:
    """Leave out frames without a name: an address says nothing, and differs from rank to rank."""
    named = (frame for frame in thread.frames if not frame.function.startswith("0x"))
    return ShownThread(
        name="main thread" if thread.is_main else thread.name,
        frames=tuple(_stack_frame(frame, folder) for frame in named),
    )


def _stack_frame(frame: Frame, folder: str) -> ShownFrame:
    if frame.is_native:
        return ShownFrame(function=short_name(frame.function), place=frame.library, is_native=True)
    file = frame.file.removeprefix(f"{folder}/") if folder else frame.file
    file = file.rpartition("/site-packages/")[2]  # of a package, its own path is enough
    return ShownFrame(function=frame.function, place=f"{file}:{frame.line}", is_native=False)


def short_name(function: str) -> str:
    """Return a name without the arguments of its template, if they make it long.

    >>> short_name("pybind11::cpp_function::initialize<" + 99 * "bool, " + "char>(int)")
    'pybind11::cpp_function::initialize<…>'
    >>> short_name("std::vector<int>::size")
    'std::vector<int>::size'
    """
    if len(function) <= _LONG_NAME:
        return function
    name, bracket, _ = function.partition("<")
    return f"{name[:_LONG_NAME]}<…>" if bracket else f"{name[:_LONG_NAME]}…"


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
