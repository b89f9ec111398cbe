"""Even work: what samples cost, and groups of equal cost. Numbers in, numbers out."""

from paceline.balance.costs import linear, quadratic, whole_costs
from paceline.balance.partition import partition
from paceline.balance.partition_values import MemoryLimitError, Method, Partition

__all__ = ["MemoryLimitError", "Method", "Partition", "linear", "partition", "quadratic", "whole_costs"]
