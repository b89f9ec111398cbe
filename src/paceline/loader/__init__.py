"""What users iterate: a rank's share of the data, in equal steps."""

from paceline.loader.contract import ContractResult, check_contract
from paceline.loader.sampler import PlanSampler

__all__ = ["ContractResult", "PlanSampler", "check_contract"]
