"""request-never-completed: a request that nobody waited for, or an active one that was started again or freed.

Ranks notice it themselves, when the object is dropped or at the end. A few requests that are dropped may be the traces
of an exception that ends the job: they are told once the job has ended well, many at once.
"""

from __future__ import annotations

from paceline.guard.shared_memory.operations import shown_name
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.warnings.remarks_by_line import RemarkedLine, remarked_lines
from paceline.guard.verdict.wording import name_ranks

_MANY = 8  # requests of one line that are told before the job has ended

_WHAT_HAPPENED = {
    "dropped": ("was dropped before anybody waited for it", "were dropped before anybody waited for them"),
    "left": ("was not waited for before the end", "were not waited for before the end"),
    "restarted": ("was started again before it had completed", "were started again before they had completed"),
    "freed": ("was freed before it had completed", "were freed before they had completed"),
    "uncompleted": ("was not completed before the end", "were not completed before the end"),
    "held": ("was not given back before the end", "were not given back before the end"),
}
_ADVICE = {
    "dropped": "keep what the call returns, and wait for it before its buffer is used again",
    "left": "wait for it before the end",
    "restarted": "wait for it before it is started again",
    "freed": "wait for it before it is freed",
    "uncompleted": "end its epoch, by a fence, a Complete, an Unlock or a flush, before its values are used",
    "held": "call Unlock, and Free for the window, before the end",
}


def find_unfinished_requests(inspection: Inspection, ended_well: bool) -> list[JobWarning]:
    """Return the lines whose requests were never completed."""
    cause = WarningCause.REQUEST_NEVER_COMPLETED
    lines = remarked_lines(inspection, cause)
    return [_warning(line) for line in lines if ended_well or max(line.counts.values()) >= _MANY]


def _kind(line: RemarkedLine) -> str:
    if line.how in ("uncompleted", "held"):
        return "lock" if line.how == "held" else "call"
    return "work" if line.what.startswith("torch.") else "request"


def _warning(line: RemarkedLine) -> JobWarning:
    one = line.num == 1
    request = _kind(line)
    whose = f"a {request} of {shown_name(line.what)}" if one else f"{line.num} {request}s of {shown_name(line.what)}"
    how = _WHAT_HAPPENED.get(line.how, _WHAT_HAPPENED["dropped"])[0 if one else 1]
    return JobWarning(
        cause=WarningCause.REQUEST_NEVER_COMPLETED, ranks=line.ranks,
        summary=f"{whose} at {line.site} {how} ({name_ranks(line.ranks)})",
        advice=_ADVICE.get(line.how, _ADVICE["dropped"]), sites=(line.site,),
    )  # fmt: skip
