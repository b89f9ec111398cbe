"""Exceptions that threads of a rank have raised and nobody caught: Python prints them, and the rank goes on without.

They may have nothing to do with a finding. But where the rank is out of line, they are the first thing to look at.
"""

from __future__ import annotations

from dataclasses import replace

from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.wording import name_rank


def with_thread_errors(inspection: Inspection, finding: Finding) -> Finding:
    """Add to a finding what the first thread of a rank that is out of line has raised, if one has."""
    for rank in finding.ranks:
        state = inspection.state(rank)
        if state is not None and state.thread_error:
            raised = f"a thread of {name_rank(rank)} raised {state.thread_error}"
            return replace(
                finding,
                summary=f"{finding.summary}; {raised}, and nobody caught it",
                advice=f"check first whether this is because {raised}; otherwise {finding.advice}",
            )
    return finding
