"""Paceline keeps every rank of a data-parallel job in line.

Names are loaded when they are first used: importing the package imports neither numpy nor torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.balance import Partition, partition
    from paceline.batch import Batch, Collate, Jagged, Packed, packed
    from paceline.comm import Comm, connect
    from paceline.errors import PacelineError
    from paceline.launch import run_ranks
    from paceline.loader import Loader, PlanSampler, in_step, mean_loss, pack_step
    from paceline.plan import LengthPlan, MixedPlan, PackPlan, PackSummary, Plan, Summary, Tail, Until

__version__ = "0.2.0"

_HOMES = {
    "Batch": "paceline.batch",
    "Collate": "paceline.batch",
    "Comm": "paceline.comm",
    "Jagged": "paceline.batch",
    "LengthPlan": "paceline.plan",
    "Loader": "paceline.loader",
    "MixedPlan": "paceline.plan",
    "PacelineError": "paceline.errors",
    "PackPlan": "paceline.plan",
    "PackSummary": "paceline.plan",
    "Packed": "paceline.batch",
    "Partition": "paceline.balance",
    "Plan": "paceline.plan",
    "PlanSampler": "paceline.loader",
    "Summary": "paceline.plan",
    "Tail": "paceline.plan",
    "Until": "paceline.plan",
    "connect": "paceline.comm",
    "in_step": "paceline.loader",
    "mean_loss": "paceline.loader",
    "pack_step": "paceline.loader",
    "packed": "paceline.batch",
    "partition": "paceline.balance",
    "run_ranks": "paceline.launch",
}

__all__ = [
    "Batch",
    "Collate",
    "Comm",
    "Jagged",
    "LengthPlan",
    "Loader",
    "MixedPlan",
    "PacelineError",
    "PackPlan",
    "PackSummary",
    "Packed",
    "Partition",
    "Plan",
    "PlanSampler",
    "Summary",
    "Tail",
    "Until",
    "connect",
    "in_step",
    "mean_loss",
    "pack_step",
    "packed",
    "partition",
    "run_ranks",
]


_LAYERS = ("balance", "batch", "bench", "comm", "errors", "guard", "lab", "launch", "loader", "plan")


def __getattr__(name: str) -> Any:
    if name in _LAYERS:
        return import_module(f"paceline.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        from paceline.errors import missing_extra

        if (sentence := missing_extra(error)) is None:
            raise
        raise ModuleNotFoundError(f"paceline.{name}: {sentence}", name=error.name) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
