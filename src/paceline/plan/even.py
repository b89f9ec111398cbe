"""Steps dealt by cost: each global batch is cut so that all ranks have the same work, by arithmetic alone.

Every rank cuts the same numbers and gets the same groups. A step holds the same samples as without costs, and each
rank the same number of rows; only who gets which row differs.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np

from paceline.balance import partition, whole_costs
from paceline.errors import InputError
from paceline.plan.order import Ids

_RECENT_STEPS = 8


class EvenDeal:
    """Deals the samples of a step to ranks by what they cost."""

    def __init__(self, costs: Any, num_samples: int) -> None:
        self.costs, _ = whole_costs(costs, added_up=False)  # only those of one step are ever added
        if self.costs.size != num_samples:
            raise InputError(f"costs must be one number per sample: {num_samples} of them, got {self.costs.size}")
        self.costs.flags.writeable = False
        self.digest = hashlib.blake2b(self.costs.tobytes(), digest_size=8).hexdigest()
        self._recent: OrderedDict[bytes, tuple[Ids, ...]] = OrderedDict()  # the latest steps, the oldest first

    def groups(self, samples: Ids, world_size: int) -> tuple[Ids, ...]:
        """Return, for each rank, the indices of its samples among those of the step, rising.

        If the step does not divide evenly, the first ranks have one more, as without costs.
        """
        key = samples.tobytes() + world_size.to_bytes(8, "little")
        groups = self._recent.get(key)
        if groups is None:
            cut = partition(self.costs[samples], world_size).groups
            by_size = sorted(range(world_size), key=lambda group: -cut[group].size)  # equal ones keep their order
            groups = self._recent[key] = tuple(cut[group] for group in by_size)
            while len(self._recent) > _RECENT_STEPS:
                self._recent.popitem(last=False)
        return groups

    def loads(self, samples: Ids, world_size: int) -> Ids:
        """Return the cost of each rank's samples."""
        return np.array([self.costs[samples[group]].sum() for group in self.groups(samples, world_size)])
