"""What users iterate: a rank's share of the data, in equal steps.

Names that need torch are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from paceline.loader.contract import ContractResult, check_contract
from paceline.loader.sampler import PlanSampler

if TYPE_CHECKING:
    from paceline.loader.agreement import DisagreementError
    from paceline.loader.balancer import Balancer, Balancing, Route, StepStatistics
    from paceline.loader.collectives import exchange, gather_batches
    from paceline.loader.loss import ItemCount, MeanLoss, mean_loss

__all__ = [
    "Balancer",
    "Balancing",
    "ContractResult",
    "DisagreementError",
    "ItemCount",
    "MeanLoss",
    "PlanSampler",
    "Route",
    "StepStatistics",
    "check_contract",
    "exchange",
    "gather_batches",
    "mean_loss",
]

_NEED_TORCH = {
    "Balancer": "paceline.loader.balancer",
    "Balancing": "paceline.loader.balancer",
    "ItemCount": "paceline.loader.loss",
    "MeanLoss": "paceline.loader.loss",
    "Route": "paceline.loader.balancer",
    "StepStatistics": "paceline.loader.balancer",
    "DisagreementError": "paceline.loader.agreement",
    "exchange": "paceline.loader.collectives",
    "gather_batches": "paceline.loader.collectives",
    "mean_loss": "paceline.loader.loss",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module 'paceline.loader' has no attribute {name!r}")
    return getattr(import_module(_NEED_TORCH[name]), name)
