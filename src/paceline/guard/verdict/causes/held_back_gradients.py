"""Gradients that are reduced in some steps only: it may be these steps that differ between ranks."""

from __future__ import annotations

from dataclasses import replace

from paceline.guard.verdict.causes.deviation import Deviation
from paceline.guard.verdict.finding import Cause, Explanation
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.source.passed_over import may_be_held_back
from paceline.guard.verdict.wording import call_name


def advise_on_held_back(inspection: Inspection, deviation: Deviation, explanation: Explanation) -> Explanation:
    """Advise on the steps in which gradients are reduced, where a reduction of them is missing or too many."""
    if explanation.cause not in (Cause.SKIPPED_CALL, Cause.EXTRA_CALL):
        return explanation
    for call in (deviation.usual_call, deviation.odd_call):
        if may_be_held_back(inspection, call):
            return replace(
                explanation,
                advice=f"let every rank reduce its gradients in the same steps: those in which the {call_name(call)} "
                f"at {call.site} is held back, by `no_sync` or the like, must be the same on all ranks",
            )
    return explanation
