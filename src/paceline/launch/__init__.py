"""Starts ranks."""

from paceline.launch.outcome import Outcome, RankError
from paceline.launch.run import run_ranks

__all__ = ["Outcome", "RankError", "run_ranks"]
