"""A plan as a table for notebooks."""

from __future__ import annotations

from paceline.plan.epoch_plan import EpochPlan
from paceline.plan.tail import summary_html


def plan_html(plan: EpochPlan) -> str:
    """Return what a plan does with its samples, below what it was made of."""
    kind = type(plan).__name__
    return summary_html(f"{kind}: {plan.num_samples:,} samples on {plan.world_size:,} ranks", plan.summary())
