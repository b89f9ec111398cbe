"""What users iterate: a rank's share of the data, in equal steps.

Names are loaded when they are first used: some need torch, and a job that trains does not need what checks a sampler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.loader.agreement.must_agree import DisagreementError
    from paceline.loader.agreement.one_rank import OneRankError, on_one_rank, save_whole
    from paceline.loader.agreement.problem import LoadError
    from paceline.loader.check.contract import check_contract
    from paceline.loader.check.contract_result import ContractResult
    from paceline.loader.epochs.epoch_summary import EpochSummary
    from paceline.loader.epochs.loader import Loader
    from paceline.loader.epochs.loader_settings import Check
    from paceline.loader.loss import ItemCount, MeanLoss, mean_loss
    from paceline.loader.row_exchange.balancer import Balancer, Balancing, Route, StepStatistics
    from paceline.loader.row_exchange.batch_collectives import exchange, gather_batches
    from paceline.loader.row_exchange.pack_step import StepPacks, pack_step
    from paceline.loader.row_exchange.step_packer import Packing, StepPacker
    from paceline.loader.sampler import PlanSampler
    from paceline.loader.streams.in_step import InStep, in_step
    from paceline.loader.streams.shards import ShardStream
    from paceline.loader.streams.stream_loader import StreamLoader
    from paceline.loader.workers.step_loader import OnError

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
    "Packing",
    "PlanSampler",
    "Route",
    "ShardStream",
    "StepPacker",
    "StepPacks",
    "StepStatistics",
    "StreamLoader",
    "check_contract",
    "exchange",
    "gather_batches",
    "in_step",
    "mean_loss",
    "on_one_rank",
    "pack_step",
    "save_whole",
]

_LOADED_LATER = {
    "Balancer": "paceline.loader.row_exchange.balancer",
    "Balancing": "paceline.loader.row_exchange.balancer",
    "Check": "paceline.loader.epochs.loader_settings",
    "ContractResult": "paceline.loader.check.contract_result",
    "DisagreementError": "paceline.loader.agreement.must_agree",
    "EpochSummary": "paceline.loader.epochs.epoch_summary",
    "InStep": "paceline.loader.streams.in_step",
    "ItemCount": "paceline.loader.loss",
    "LoadError": "paceline.loader.agreement.problem",
    "Loader": "paceline.loader.epochs.loader",
    "MeanLoss": "paceline.loader.loss",
    "OnError": "paceline.loader.workers.step_loader",
    "OneRankError": "paceline.loader.agreement.one_rank",
    "Packing": "paceline.loader.row_exchange.step_packer",
    "PlanSampler": "paceline.loader.sampler",
    "Route": "paceline.loader.row_exchange.balancer",
    "ShardStream": "paceline.loader.streams.shards",
    "StepPacker": "paceline.loader.row_exchange.step_packer",
    "StepPacks": "paceline.loader.row_exchange.pack_step",
    "StepStatistics": "paceline.loader.row_exchange.balancer",
    "StreamLoader": "paceline.loader.streams.stream_loader",
    "check_contract": "paceline.loader.check.contract",
    "exchange": "paceline.loader.row_exchange.batch_collectives",
    "gather_batches": "paceline.loader.row_exchange.batch_collectives",
    "in_step": "paceline.loader.streams.in_step",
    "mean_loss": "paceline.loader.loss",
    "on_one_rank": "paceline.loader.agreement.one_rank",
    "pack_step": "paceline.loader.row_exchange.pack_step",
    "save_whole": "paceline.loader.agreement.one_rank",
}


def __getattr__(name: str) -> Any:
    if name not in _LOADED_LATER:
        raise AttributeError(f"module 'paceline.loader' has no attribute {name!r}")
    return getattr(import_module(_LOADED_LATER[name]), name)
