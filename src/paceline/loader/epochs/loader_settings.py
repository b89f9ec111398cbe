"""The settings of a `Loader` that most jobs leave alone: its own, and those that it hands on to torch's workers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from paceline.errors import choice
from paceline.loader.row_exchange.move_price import check_seconds_per_cost
from paceline.loader.workers.worker_settings import WorkerSettings, check_worker_settings


class Check(StrEnum):
    """When ranks compare what they must have in common."""

    FIRST = "first"  # at the first step of a pass
    EVERY = "every"  # at each step


class LoaderSettings(WorkerSettings, total=False):
    """All that `Loader` takes besides its own parameters, for a type checker."""

    fields: Collection[str]
    pad_values: Mapping[str, float] | None
    example: Any
    check: Check | str
    reseed: bool | None
    seconds_per_cost: float | None
    progress: bool | None
    grace: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoaderOptions:
    """The loader's own among these settings, checked; `Loader` says what they mean."""

    fields: Collection[str] = ()
    pad_values: Mapping[str, float] | None = None
    example: Any = None
    check: Check = Check.FIRST
    reseed: bool | None = None
    seconds_per_cost: float | None = None
    progress: bool | None = None
    grace: float = 60.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "check", choice(Check, "check", self.check))
        check_seconds_per_cost(self.seconds_per_cost)


def read_settings(settings: Mapping[str, Any]) -> tuple[LoaderOptions, dict[str, Any]]:
    """Return the loader's own settings, and those of torch's workers.

    Raises:
        InputError: If a name is neither, with the name that may be meant.
    """
    own_names = [field.name for field in fields(LoaderOptions)]
    own = {name: value for name, value in settings.items() if name in own_names}
    of_workers = {name: value for name, value in settings.items() if name not in own_names}
    check_worker_settings("Loader", of_workers, own_names)
    return LoaderOptions(**own), of_workers
