"""When a job of the benchmark was launched: its parent says so by a variable that every rank reads."""

from __future__ import annotations

import os
import time
from pathlib import Path

_BEGAN = "PACELINE_BENCH_BEGAN"  # in seconds since 1970


def launch_variables(began: float) -> dict[str, str]:
    """Return what tells ranks when their job was launched."""
    return {_BEGAN: f"{began:.3f}"}


def launch_time() -> float:
    """Return when the job was launched; if nobody says so, when this process began."""
    began = os.environ.get(_BEGAN)
    if began:
        return float(began)
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    since_boot = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - since_boot + ticks / os.sysconf("SC_CLK_TCK")
