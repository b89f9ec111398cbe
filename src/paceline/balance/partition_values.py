"""What a caller chooses of a partition and what it gets back. Nothing here needs the compiled kernels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from paceline.balance.costs import Numbers
from paceline.errors import PacelineError

Loads = np.ndarray[Any, np.dtype[np.int64]] | np.ndarray[Any, np.dtype[np.float64]]


class Method(StrEnum):
    """How groups are found."""

    AUTO = "auto"
    DIFFERENCING = "differencing"
    LONGEST_FIRST = "longest_first"
    SWAP_IN_PLACE = "swap_in_place"


class MemoryLimitError(PacelineError):
    """No groups were found that respect the memory limit."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partition:
    """Groups of samples.

    Attributes:
        groups: The samples of each group: real ones in rising order, then padding. Sizes differ by at most 1.
        loads: The cost of each group.
        max_over_mean: The heaviest group's cost over the mean: how much longer a step takes than it has to.
        max_over_bound: The heaviest group's cost over the bound that no partition can beat; 1.0 is provably optimal.
        num_moved: Samples that are not where `placement` had them; 0 without a placement.
        num_crossed: Those of them that are on another host; 0 without hosts.
        bytes_crossed: The bytes of these.
    """

    groups: tuple[Numbers, ...]
    loads: Loads
    max_over_mean: float
    max_over_bound: float
    num_moved: int
    num_crossed: int = 0
    bytes_crossed: int = 0
