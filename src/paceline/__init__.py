"""Paceline keeps every rank of a data-parallel job in line.

Names are loaded when they are first used: importing the package imports neither numpy nor torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.errors import PacelineError
    from paceline.loader import PlanSampler
    from paceline.plan import LengthPlan, MixedPlan, Plan, Summary, Tail, Until

__version__ = "0.1.0"

_HOMES = {
    "LengthPlan": "paceline.plan",
    "MixedPlan": "paceline.plan",
    "PacelineError": "paceline.errors",
    "Plan": "paceline.plan",
    "PlanSampler": "paceline.loader",
    "Summary": "paceline.plan",
    "Tail": "paceline.plan",
    "Until": "paceline.plan",
}

__all__ = [
    "LengthPlan",
    "MixedPlan",
    "PacelineError",
    "Plan",
    "PlanSampler",
    "Summary",
    "Tail",
    "Until",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
