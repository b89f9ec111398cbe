"""Starts ranks: of a function (`run_ranks`), or of a program (`local_ranks`); and cleans up what they leave.

`run_ranks` needs numpy and is loaded when it is first used; to start a program needs neither.
"""

from typing import TYPE_CHECKING, Any

from paceline.launch.outcome import Outcome, RankError

if TYPE_CHECKING:
    from paceline.launch.run_function import run_ranks

__all__ = ["Outcome", "RankError", "run_ranks"]


def __getattr__(name: str) -> Any:
    if name == "run_ranks":
        from paceline.launch.run_function import run_ranks

        return run_ranks
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
