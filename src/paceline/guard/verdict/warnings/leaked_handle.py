"""handle-leak: one line makes handles again and again, and they are not freed. Ranks count them themselves.

Python's garbage collection frees none of them: mpi4py leaves that to `Free`, and torch keeps a group until it is
destroyed. When a rank says so, and of how many, is in guard/rank/remarks/live_handles.py.
"""

from __future__ import annotations

from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.warnings.remarks_by_line import RemarkedLine, remarked_lines
from paceline.guard.verdict.wording import name_ranks

# kind of handle -> several of them, how one is given back
_KINDS = {
    "communicator": ("communicators", "Free"),
    "window": ("windows", "Free"),
    "file": ("files", "Close"),
    "reduction": ("reductions", "Free"),
    "group": ("groups", "Free"),
    "datatype": ("datatypes", "Free"),
    "info": ("infos", "Free"),
    "request": ("persistent requests", "Free"),
    "process group": ("process groups", "destroy_process_group"),
}


def find_leaked_handles(inspection: Inspection, ended_well: bool) -> list[JobWarning]:
    """Return the lines that make handles which are never freed."""
    return [_warning(line) for line in remarked_lines(inspection, WarningCause.HANDLE_LEAK)]


def _warning(line: RemarkedLine) -> JobWarning:
    several, release = _KINDS.get(line.what, (f"{line.what}s", "Free"))
    most, limit = max(line.counts.values()), int(line.facts.get("limit") or 0)
    dropped = int(line.facts.get("dropped") or 0)
    summary = f"{most} {several} made at {line.site} are not freed ({name_ranks(line.ranks)}"
    summary += f"; nothing in the program refers to {dropped} of them any more)" if dropped else ")"
    if limit:
        summary += f"; {line.facts.get('library', 'the library')} has room for about {limit:,}, and fails then"
    return JobWarning(
        cause=WarningCause.HANDLE_LEAK, ranks=line.ranks, summary=summary,
        advice=f"make it once, before the loop, or call {release} on each when it is no longer needed",
        sites=(line.site,),
    )  # fmt: skip
