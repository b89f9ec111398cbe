"""When a job of the benchmark was launched: its parent says so by a variable that every rank reads."""

from __future__ import annotations

import os

from paceline.process.procfs import began_at

_BEGAN = "PACELINE_BENCH_BEGAN"  # in seconds since 1970


def launch_variables(began: float) -> dict[str, str]:
    """Return what tells ranks when their job was launched."""
    return {_BEGAN: f"{began:.3f}"}


def launch_time() -> float:
    """Return when the job was launched; if nobody says so, when this process began."""
    began = os.environ.get(_BEGAN)
    if began:
        return float(began)
    return began_at(os.getpid())
