"""Starts ranks: of a function (`run_ranks`), or of a program (`local_ranks`); and cleans up what they leave."""

from paceline.launch.outcome import Outcome, RankError
from paceline.launch.run_function import run_ranks

__all__ = ["Outcome", "RankError", "run_ranks"]
