"""Even work: what samples cost, and groups of equal cost. Numbers in, numbers out."""

from paceline.balance.costs import linear, quadratic, whole_costs
from paceline.balance.partition import partition
from paceline.balance.partition_values import MemoryLimitError, Method, Partition
from paceline.balance.warming import warm_up

__all__ = ["MemoryLimitError", "Method", "Partition", "linear", "partition", "quadratic", "warm_up", "whole_costs"]
