"""What is seen of a job from outside, as values. Nothing here reads anything; tests build these values by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paceline.guard.verdict.finding import Finding, RankGroup
from paceline.process.native_stacks import Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a process."""

    threads: tuple[Thread, ...]  # empty if its interpreter has gone: the process is exiting
    kernel_state: str  # R, S, D, T ...
    kernel_wait: str  # the kernel function it sleeps in, if that can be seen
    processor_seconds: float
    at: float  # seconds
    exit_calls: tuple[str, ...] = ()  # what the main thread has entered that ends a rank, as exit_trace sees it

    @property
    def main(self) -> Thread | None:
        """The main thread; the only one, if none says that it is the main one."""
        only = self.threads[0] if len(self.threads) == 1 else None
        return next((thread for thread in self.threads if thread.is_main), only)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRank:
    """A rank that lives, as two looks have seen it."""

    rank: int
    pid: int
    first: Look
    second: Look
    cwd: str = ""

    @property
    def seconds(self) -> float:
        """The time between the looks."""
        return self.second.at - self.first.at

    @property
    def processor_share(self) -> float:
        """How much of a core it had between the looks."""
        spent = self.second.processor_seconds - self.first.processor_seconds
        return max(0.0, spent / self.seconds) if self.seconds > 0 else 0.0

    @property
    def has_moved(self) -> bool:
        """Whether its main thread was at another line at the second look."""
        return _python_lines(self.first) != _python_lines(self.second)


def _python_lines(look: Look) -> list[tuple[str, str, int]]:
    frames = look.main.frames if look.main is not None else ()
    return [(frame.function, frame.file, frame.line) for frame in frames if not frame.is_native]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """A job as it was seen."""

    name: str  # how it is told from others: its launcher
    ranks: tuple[SeenRank, ...]
    world_size: int | None  # None: nothing says how many ranks there should be
    missing: tuple[int, ...] = ()  # ranks that should be on this machine and are not
    num_elsewhere: int = 0  # ranks on other machines
    unseen: Mapping[int, str] = field(default_factory=dict)  # rank -> why it could not be looked at
    ranks_from: str = ""  # what says which rank a process is
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What follows for one job."""

    job: SeenJob
    finding: Finding | None
    groups: tuple[RankGroup, ...]
    says: tuple[str, ...]  # what can be concluded
    cannot: tuple[str, ...]  # what cannot
