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
    from paceline.loader.loader import Loader
    from paceline.loader.loss import ItemCount, MeanLoss, mean_loss
    from paceline.loader.passing import Check
    from paceline.loader.problem import LoadError
    from paceline.loader.saving import OneRankError, on_one_rank, save_whole
    from paceline.loader.shards import ShardStream
    from paceline.loader.source import OnError
    from paceline.loader.stream import InStep, in_step
    from paceline.loader.stream_loader import StreamLoader
    from paceline.loader.summary import EpochSummary

__all__ = [
    "Balancer",
    "Balancing",
    "Check",
    "ContractResult",
    "DisagreementError",
    "EpochSummary",
    "InStep",
    "ItemCount",
    "LoadError",
    "Loader",
    "MeanLoss",
    "OnError",
    "OneRankError",
    "PlanSampler",
    "Route",
    "ShardStream",
    "StepStatistics",
    "StreamLoader",
    "check_contract",
    "exchange",
    "gather_batches",
    "in_step",
    "mean_loss",
    "on_one_rank",
    "save_whole",
]

_NEED_TORCH = {
    "Balancer": "paceline.loader.balancer",
    "Balancing": "paceline.loader.balancer",
    "Check": "paceline.loader.passing",
    "DisagreementError": "paceline.loader.agreement",
    "EpochSummary": "paceline.loader.summary",
    "InStep": "paceline.loader.stream",
    "ItemCount": "paceline.loader.loss",
    "LoadError": "paceline.loader.problem",
    "Loader": "paceline.loader.loader",
    "MeanLoss": "paceline.loader.loss",
    "OnError": "paceline.loader.source",
    "OneRankError": "paceline.loader.saving",
    "Route": "paceline.loader.balancer",
    "ShardStream": "paceline.loader.shards",
    "StepStatistics": "paceline.loader.balancer",
    "StreamLoader": "paceline.loader.stream_loader",
    "exchange": "paceline.loader.collectives",
    "gather_batches": "paceline.loader.collectives",
    "in_step": "paceline.loader.stream",
    "mean_loss": "paceline.loader.loss",
    "on_one_rank": "paceline.loader.saving",
    "save_whole": "paceline.loader.saving",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module 'paceline.loader' has no attribute {name!r}")
    return getattr(import_module(_NEED_TORCH[name]), name)
