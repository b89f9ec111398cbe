"""buffer-in-use: memory was used while a request that had not completed still needed it. Ranks notice it themselves.

What a rank compares, and when, is in guard/rank/remarks/active_buffers.py.
"""

from __future__ import annotations

from paceline.guard.shared_memory.operations import shown_name
from paceline.guard.shared_memory.ring_texts import UNKNOWN_SITE
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.job_warning import JobWarning, WarningCause
from paceline.guard.verdict.warnings.remarks_by_line import RemarkedLine, remarked_lines
from paceline.guard.verdict.wording import name_ranks


def find_buffers_in_use(inspection: Inspection, ended_well: bool) -> list[JobWarning]:
    """Return the lines whose memory something else used before their requests had completed."""
    lines = remarked_lines(inspection, WarningCause.BUFFER_IN_USE)
    return [_warning(line) for line in lines if "pair" not in line.facts]  # see window_conflict.py


def _warning(line: RemarkedLine) -> JobWarning:
    call = f"{shown_name(line.what)} at {line.site}"
    other_site = str(line.facts.get("other_at") or "")
    other_site = "" if other_site == UNKNOWN_SITE else other_site
    other = f"{shown_name(str(line.facts.get('other') or 'a call'))} at {other_site}" if other_site else ""
    if line.how == "changed":
        summary = f"the buffer of {call} was written to before the call had completed"
        summary += f", which was not known before {other}" if other else ""
        advice = f"wait for what {line.site} has started before its buffer is written to, or give it a copy"
    elif line.how == "dropped":
        summary = f"the program dropped the array of {call} before the call had completed"
        summary += f", which was not known before {other}" if other else ""
        summary += ": mpi4py does not keep what it reduces, so without the guard its memory may hold something else"
        advice = f"give the array of {line.site} a name, and keep it until the wait has returned"
    elif line.how == "outside":
        summary = f"{call} accessed memory of a window outside any epoch: nothing orders or completes the access"
        advice = f"put {line.site} between two fences, a Start and a Complete, or a Lock and an Unlock"
    elif line.how == "used":
        summary = f"{call} used the buffer of {other or 'a request'} before that had completed"
        advice = f"wait for what {other_site or 'the other line'} has started before its buffer is used"
    else:
        holder = other or "another request"
        summary = f"{call} was given memory that {holder} still uses, and one of them writes to it"
        advice = "give each its own buffer, or wait for the first before the second is started"
    times = f", {line.num} times" if line.num > 1 else ""
    return JobWarning(
        cause=WarningCause.BUFFER_IN_USE, ranks=line.ranks, summary=f"{summary} ({name_ranks(line.ranks)}{times})",
        advice=advice, sites=(line.site, other_site) if other_site and other_site != line.site else (line.site,),
    )  # fmt: skip
