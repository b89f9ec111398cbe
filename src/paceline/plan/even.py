"""Steps dealt by cost: each global batch is cut so that all ranks have the same work, by arithmetic alone.

Every rank cuts the same numbers and gets the same groups. What a step holds is what it would hold without costs, and
so is the number of rows of each rank; only who gets which row differs.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np

from paceline.balance import partition, whole_costs
from paceline.errors import InputError
from paceline.plan.order import Ids

_KEPT_STEPS = 8


class EvenDeal:
    """Deals the samples of a step to ranks by what they cost."""

    def __init__(self, costs: Any, num_samples: int) -> None:
        self.costs, _ = whole_costs(costs, added_up=False)  # only those of one step are ever added
        if self.costs.size != num_samples:
            raise InputError(f"costs must be one number per sample: {num_samples} of them, got {self.costs.size}")
        self.costs.flags.writeable = False
        self.digest = hashlib.blake2b(self.costs.tobytes(), digest_size=8).hexdigest()
        self._kept: OrderedDict[bytes, tuple[Ids, ...]] = OrderedDict()  # steps that were just asked for

    def groups(self, samples: Ids, world_size: int) -> tuple[Ids, ...]:
        """Return, for each rank, the places of its samples among those of the step, rising.

        The first ranks have one more where the step does not come out even, as without costs.
        """
        key = samples.tobytes() + world_size.to_bytes(8, "little")
        found = self._kept.get(key)
        if found is None:
            cut = partition(self.costs[samples], world_size).groups
            by_size = sorted(range(world_size), key=lambda group: -cut[group].size)  # equal ones keep their order
            found = self._kept[key] = tuple(cut[group] for group in by_size)
            while len(self._kept) > _KEPT_STEPS:
                self._kept.popitem(last=False)
        return found

    def loads(self, samples: Ids, world_size: int) -> Ids:
        """Return the cost of each rank's samples."""
        return np.array([self.costs[samples[group]].sum() for group in self.groups(samples, world_size)])
