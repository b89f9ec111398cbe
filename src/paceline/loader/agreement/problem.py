"""What went wrong while a rank made its batch, in a form that travels to all ranks."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from paceline.errors import PacelineError

_PACKAGE = str(Path(__file__).parents[2])


def error_text(error: BaseException) -> str:
    """Return an exception's type and message, and the innermost line outside of this package that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    site = f" ({Path(outside[-1].filename).name}:{outside[-1].lineno})" if outside else ""
    return f"{type(error).__name__}: {error}{site}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a rank has no batch at a step.

    Attributes:
        text: The error and where it was raised.
        sample: The sample that could not be loaded, or None if it is not one sample.
        trace: The traceback of the process in which it happened.
        rank: The rank, once it is known.
        epoch: The epoch, once it is known.
        step: The step, counted from 0 since iterating began.
    """

    text: str
    sample: int | None = None
    trace: str = ""
    rank: int = -1
    epoch: int = -1
    step: int = -1

    @classmethod
    def of(cls, error: BaseException, *, sample: int | None = None) -> Problem:
        """Return the problem that an exception is."""
        return cls(text=error_text(error), sample=sample, trace="".join(traceback.format_exception(error)))

    @classmethod
    def from_json(cls, content: Mapping[str, Any] | None) -> Problem | None:
        """Return what `to_json` was made of; None where there was no problem."""
        return None if content is None else cls(**content)

    def to_json(self) -> dict[str, Any]:
        """Return it in a form that travels."""
        return asdict(self)

    def at(self, *, rank: int, epoch: int, step: int) -> Problem:
        """Return it with rank, epoch and step."""
        return replace(self, rank=rank, epoch=epoch, step=step)

    def __str__(self) -> str:
        what = "make its batch" if self.sample is None else f"load sample {self.sample}"
        return f"rank {self.rank} could not {what} at step {self.step} of epoch {self.epoch}: {self.text}"


def first_problem(problems: Iterable[Problem | None]) -> Problem | None:
    """Return the problem of the earliest step, and there of the lowest rank: every rank chooses the same."""
    return min(filter(None, problems), key=lambda problem: (problem.step, problem.rank), default=None)


def raise_problem(problems: Iterable[Problem | None], *, rank: int) -> None:
    """Raise the first of the problems that ranks have, if there is one.

    Args:
        problems: Those of all ranks.
        rank: This rank, as it is counted in the problems.
    """
    first = first_problem(problems)
    if first is not None:
        raise LoadError(first, is_of_another_rank=first.rank != rank)


class LoadError(PacelineError):
    """A rank could not make its batch. Every rank raises it, at the same step.

    Attributes:
        rank: The rank that failed.
        epoch: The epoch.
        step: The step, counted from 0 since iterating began.
        sample: The sample that could not be loaded, or None if it is not one sample.
        problem: The whole problem, with the traceback.
        is_of_another_rank: Whether this rank raises it only because another has failed; the guard reads it.
    """

    def __init__(self, problem: Problem, is_of_another_rank: bool = False) -> None:
        super().__init__(str(problem))
        self.problem, self.is_of_another_rank = problem, is_of_another_rank
        self.rank, self.epoch, self.step, self.sample = problem.rank, problem.epoch, problem.step, problem.sample
        if problem.trace:
            self.add_note(f"on rank {problem.rank}:\n{problem.trace}")

    def __reduce__(self) -> tuple[type[LoadError], tuple[Problem, bool]]:
        return LoadError, (self.problem, self.is_of_another_rank)
