"""A bar for the first rank, on a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self


class ProgressBar:
    """Shows how far a pass is; nothing if it is not wanted.

    Args:
        title: What stands before the bar.
        num_steps: Steps of the pass, or None if that is not known.
        is_shown: Whether anything is shown.
    """

    def __init__(self, title: str, num_steps: int | None, *, is_shown: bool) -> None:
        self._bar: Any = None
        if is_shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(title, total=num_steps)

    def step(self, count: int = 1) -> None:
        """Advance by one step, or by several."""
        if self._bar is not None:
            self._bar.advance(self._task, count)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def is_wanted(choice: bool | None, rank: int) -> bool:
    """Return whether to show progress: only on the first rank; on a terminal, unless the user has chosen."""
    return rank == 0 and (sys.stderr.isatty() if choice is None else choice)
