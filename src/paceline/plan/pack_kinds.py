"""Tells plans of packs from others without loading them: a job that has none need not pay for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from paceline.plan.packs.pack_plan import PackPlan
    from paceline.plan.packs.pack_steps import PackSteps


def is_pack_plan(plan: object) -> TypeIs[PackPlan]:
    """Say whether a plan is one of packs. There is none before its module was loaded."""
    return _is_of("paceline.plan.packs.pack_plan", "PackPlan", plan)


def is_pack_steps(plan: object) -> TypeIs[PackSteps]:
    """Say whether a plan is one of packs, as the sampler takes it."""
    return _is_of("paceline.plan.packs.pack_steps", "PackSteps", plan)


def _is_of(module: str, name: str, plan: object) -> bool:
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(plan, getattr(loaded, name))
