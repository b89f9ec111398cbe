"""Even work: what samples cost, and groups of equal cost. Numbers in, numbers out."""

from paceline.balance.costs import linear, quadratic, whole_costs
from paceline.balance.partition import MemoryLimitError, Method, Partition, partition, warm_up

__all__ = ["MemoryLimitError", "Method", "Partition", "linear", "partition", "quadratic", "warm_up", "whole_costs"]
