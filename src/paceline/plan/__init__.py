"""The arithmetic of an epoch: which rank sees which sample at which step. Numbers in, numbers out."""

from paceline.plan.epoch_plan import EpochPlan
from paceline.plan.lengths import LengthPlan
from paceline.plan.mixture import MixedPlan, Share, Until
from paceline.plan.packs.pack_plan import PackPlan, PackSummary
from paceline.plan.packs.pack_steps import PackSteps
from paceline.plan.plan import Plan
from paceline.plan.tail import Summary, Tail, TailLike

__all__ = [
    "EpochPlan",
    "LengthPlan",
    "MixedPlan",
    "PackPlan",
    "PackSteps",
    "PackSummary",
    "Plan",
    "Share",
    "Summary",
    "Tail",
    "TailLike",
    "Until",
]
