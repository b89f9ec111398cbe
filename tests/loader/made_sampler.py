"""The sampler that tests of samplers and of their states begin with."""

from __future__ import annotations

from typing import Any

from paceline import PlanSampler


def make(num_samples: int = 100, *, ranks: int = 7, rank: int = 0, batch: int = 3, **options: Any) -> PlanSampler:
    return PlanSampler(num_samples, batch_size=batch, num_replicas=ranks, rank=rank, **options)
