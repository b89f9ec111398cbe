"""States of samplers, loaders and streams, as a checkpoint holds them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.kinds import Attempt, Kind
from tests.fuzz.spoiled_values import spoil_value

from paceline import Loader
from paceline.comm.alone_comm import AloneComm
from paceline.loader import PlanSampler, ShardStream, StreamLoader
from paceline.plan import Plan


def samplers(folder: Path) -> Attempt:
    """Spoil the state of a sampler, load it and go on."""
    plan = Plan(num_samples=101, world_size=2, batch_size=4, seed=3)
    sampler = PlanSampler.of(plan, rank=0)
    for _ in zip(range(3), sampler, strict=False):
        pass
    state = sampler.state_dict(3)

    def attempt(chance: random.Random) -> None:
        again = PlanSampler.of(plan, rank=0)
        again.load_state_dict(spoil_value(chance, state))
        next(iter(again), None)

    return attempt


def loaders(folder: Path) -> Attempt:
    """Spoil the state of a loader, load it and go on."""

    def make() -> Loader:
        return Loader([{"x": number} for number in range(23)], batch_size=4, comm=AloneComm(), progress=False)

    with make() as loader:
        for _ in zip(range(3), loader, strict=False):
            state = loader.state_dict()

    def attempt(chance: random.Random) -> None:
        with make() as again:
            again.load_state_dict(spoil_value(chance, state))
            next(iter(again), None)

    return attempt


def read(shard: str) -> Iterator[dict[str, Any]]:
    """Yield the samples of a shard."""
    yield from ({"x": int(shard) * 10 + number} for number in range(5))


def streams(folder: Path) -> Attempt:
    """Spoil the state of a stream, load it and go on."""

    def make() -> StreamLoader:
        stream = ShardStream([f"{number}" for number in range(4)], read, shuffle=False)
        return StreamLoader(stream, batch_size=2, comm=AloneComm())

    with make() as loader:
        for _ in zip(range(3), loader, strict=False):
            state = loader.gather_state()

    def attempt(chance: random.Random) -> None:
        with make() as again:
            spoiled = spoil_value(chance, state)
            again.load_state_dict(spoiled if chance.random() < 0.5 else [spoiled])
            next(iter(again), None)

    return attempt


KINDS = {
    "states of a sampler": Kind(prepare=samplers),
    "states of a loader": Kind(prepare=loaders),
    "states of a stream": Kind(prepare=streams),
}
