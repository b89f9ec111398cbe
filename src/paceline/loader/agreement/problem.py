"""What went wrong while a rank made its batch, in a form that travels to all ranks."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.errors import PacelineError

_PACKAGE = str(Path(__file__).parents[2])


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
        frames = traceback.extract_tb(error.__traceback__)
        outside = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
        where = f" ({Path(outside[-1].filename).name}:{outside[-1].lineno})" if outside else ""
        trace = "".join(traceback.format_exception(error))
        return cls(text=f"{type(error).__name__}: {error}{where}", sample=sample, trace=trace)

    def at(self, *, rank: int, epoch: int, step: int) -> Problem:
        """Return it with the place where it happened."""
        return replace(self, rank=rank, epoch=epoch, step=step)

    def __str__(self) -> str:
        what = "make its batch" if self.sample is None else f"load sample {self.sample}"
        return f"rank {self.rank} could not {what} at step {self.step} of epoch {self.epoch}: {self.text}"


class LoadError(PacelineError):
    """A rank could not make its batch. Every rank raises it, at the same step.

    Attributes:
        rank: The rank that failed.
        epoch: The epoch.
        step: The step, counted from 0 since iterating began.
        sample: The sample that could not be loaded, or None if it is not one sample.
        problem: All of it.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem
        self.rank, self.epoch, self.step, self.sample = problem.rank, problem.epoch, problem.step, problem.sample
        if problem.trace:
            self.add_note(f"on rank {problem.rank}:\n{problem.trace}")

    def __reduce__(self) -> tuple[type[LoadError], tuple[Problem]]:
        return LoadError, (self.problem,)
