"""A workload as the user chose it, and the command by which other processes choose the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.bench.workload.sections import Workload
from paceline.bench.workload.workload import load_workload


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
        """Return the command of a process that works on this workload."""
        own = [sys.executable, "-m", "paceline", "bench", "worker", self.name, *self.overrides]
        return [*own, "--scale", repr(self.scale), *options]


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
