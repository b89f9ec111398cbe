"""Stands for the accelerator: takes the time that the workload says, asleep or multiplying matrices."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from paceline.bench.workload.value_parsers import Duration
from paceline.comm import Comm

_STREAM = 4
_SIDE = 96  # of the matrices: a product takes tens of microseconds


class EmulatedCompute:
    """Emulates the steps of one rank. Drawn times depend on seed, rank and step alone."""

    def __init__(self, duration: Duration, *, how: str, seed: int, rank: int) -> None:
        self._duration, self._works = duration, how == "matrix"
        self._random = np.random.default_rng([_STREAM, seed, rank])
        self._left = self._right = np.random.default_rng(seed).random((_SIDE, _SIDE), np.float32) / _SIDE

    def run(self, share: float = 1.0) -> None:
        """Take the time of one step, times `share`."""
        seconds = self._duration.draw(self._random) * share
        if seconds <= 0:
            return
        if not self._works:
            time.sleep(seconds)
            return
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self._left = self._left @ self._right


class StepSync:
    """What ranks do together in each step: a barrier, a real all-reduce of the size of the model, or nothing."""

    def __init__(self, comm: Comm, how: str, num_bytes: int) -> None:
        self._comm, self._how = comm, how if comm.world_size > 1 else "none"
        self._gradient: Any = np.zeros(max(1, num_bytes // 4), np.float32) if how == "all_reduce" else None

    def run(self) -> None:
        """Synchronise with the other ranks."""
        if self._how == "barrier":
            self._comm.barrier()
        elif self._how == "all_reduce":
            self._comm.all_reduce(self._gradient)
