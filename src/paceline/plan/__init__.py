"""The arithmetic of an epoch: which rank sees which sample at which step. Numbers in, numbers out.

Each kind of plan is loaded when it is first used: most jobs need one, and to count steps needs none, nor numpy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from paceline.plan.tail import Summary, Tail, TailLike

if TYPE_CHECKING:
    from paceline.plan.epoch_plan import EpochPlan
    from paceline.plan.lengths import LengthPlan
    from paceline.plan.mixture import MixedPlan, Share, Until
    from paceline.plan.packs.pack_plan import PackPlan, PackSummary
    from paceline.plan.packs.pack_steps import PackSteps
    from paceline.plan.plan import Plan

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

_MODULES = {
    "EpochPlan": "paceline.plan.epoch_plan",
    "LengthPlan": "paceline.plan.lengths",
    "MixedPlan": "paceline.plan.mixture",
    "PackPlan": "paceline.plan.packs.pack_plan",
    "PackSteps": "paceline.plan.packs.pack_steps",
    "PackSummary": "paceline.plan.packs.pack_plan",
    "Plan": "paceline.plan.plan",
    "Share": "paceline.plan.mixture",
    "Until": "paceline.plan.mixture",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'paceline.plan' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
