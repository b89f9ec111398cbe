"""Watches how the training function of a Ray worker ends.

Ray runs it in a thread, catches what it raises, and keeps the process. For the other ranks the rank has ended.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from paceline.guard.rank.process_end import note_uncaught
from paceline.guard.rank.watched_process import SESSION
from paceline.guard.shared_memory import layout


def watch_training_function(module: ModuleType) -> None:
    """Have the end of each training function noted that Ray's thread runs."""
    runner: Any = module.ThreadRunner
    run = runner.run

    @functools.wraps(run)
    def watched_run(self: Any, target: Callable[[], object]) -> Any:
        return run(self, noting_its_end(target))

    runner.run = watched_run


def noting_its_end(function: Callable[[], object]) -> Callable[[], object]:
    """Return a function that does the same, and tells the judge how it has ended."""

    @functools.wraps(function)
    def noting() -> object:
        try:
            result = function()
        except BaseException as error:
            note_uncaught(error)
            SESSION.end(layout.EXITS)
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next  # Ray shows it: without this frame, as it would be
            raise
        SESSION.tell({"finished": True})
        SESSION.end(layout.EXITS)
        return result

    return noting
