"""A workload as the user chose it, and how other processes choose the same.

They are told by a variable, and not on their command lines: everybody on the machine can see those, and a setting may
be a secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.bench.workload.sections import Workload
from paceline.bench.workload.workload import load_workload
from paceline.process.own_programs import own_module

_OVERRIDES = "PACELINE_BENCH_OVERRIDES"  # a JSON list


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChoice:
    """A workload, and how to choose it again.

    Attributes:
        name: A YAML file, or the name of a workload that is shipped.
        overrides: Texts `section.key=value`.
        scale: The share of its bytes that is left.
        workload: What they come to.
        ignored_keys: Keys without effect, each with the reason.
    """

    name: str
    overrides: tuple[str, ...]
    scale: float
    workload: Workload
    ignored_keys: tuple[tuple[str, str], ...]

    def overridden(self, override: str) -> WorkloadChoice:
        """Return the same workload with one more setting changed."""
        return choose_workload(self.name, (*self.overrides, override), scale=self.scale)

    def worker_command(self, *options: str) -> list[str]:
        """Return the command of a process that works on this workload; `worker_variables` go with it."""
        return [*own_module("paceline"), "bench", "worker", self.name, "--scale", repr(self.scale), *options]

    def worker_variables(self) -> dict[str, str]:
        """Return what tells such a process the settings that the user has overridden."""
        return {_OVERRIDES: json.dumps(self.overrides)}


def choose_workload(name: str, overrides: Sequence[str] = (), *, scale: float = 1.0) -> WorkloadChoice:
    """Load a workload, and remember how it was chosen."""
    loaded = load_workload(name, overrides, scale=scale)
    return WorkloadChoice(
        name=name,
        overrides=tuple(overrides),
        scale=scale,
        workload=loaded.workload,
        ignored_keys=loaded.ignored_keys,
    )


def told_overrides() -> list[str]:
    """Return the settings that the process which started this one has told it to override."""
    overrides: list[str] = json.loads(os.environ.get(_OVERRIDES, "[]"))
    return overrides
