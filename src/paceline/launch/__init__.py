"""Starts ranks."""

from paceline.launch.outcome import Outcome, RankError
from paceline.launch.run_function import run_ranks

__all__ = ["Outcome", "RankError", "run_ranks"]
