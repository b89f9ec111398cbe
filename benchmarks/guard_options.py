"""What `--buffers` and `--results` cost: processor time that they add to calls of mpi4py in one rank, by size.

Each option has a run of its own, in which watched and unwatched calls alternate (workers/mpi_options.py). Runs repeat
in turn, and the least of their medians counts, since other work on the machine can only add to it. A rank by itself has
nobody to compare its results with, so the look at the board of results, a microsecond, is not among the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from paceline.launch.local_ranks import local_command
from record import write_record

WORKER = Path(__file__).parent / "workers" / "mpi_options.py"
MODES: dict[str, list[str]] = {"--buffers off": ["--buffers", "off"], "default": [], "--results": ["--results"]}


def run(options: list[str]) -> dict[str, float]:
    """Run the worker with these options of the guard; return the median that the guard adds, by call."""
    command = [sys.executable, "-m", "paceline", "run", *options, "--", *local_command(1, "mpi", [str(WORKER)])]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, timeout=280, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(command)} failed with code {done.returncode}:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(lines[-1])
    return {call: row["processor"]["added"]["median"] for call, row in found.items()}


def least(rounds: int) -> dict[str, dict[str, float]]:
    """Run all modes in turn; return the least figure by call and mode."""
    table: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for mode, options in MODES.items():
            for call, value in run(options).items():
                row = table.setdefault(call, {})
                row[mode] = min(value, row.get(mode, value))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    table = least(options.rounds)
    print("microseconds that the guard adds, and of these what the option costs")
    for call, row in table.items():
        buffers, results = row["default"] - row["--buffers off"], row["--results"] - row["default"]
        print(f"  {call:36} {row['default']:8.2f}   --buffers on {buffers:+8.2f}   --results {results:+8.2f}")
    write_record("guard_options", {"added_us": table}, packages=["mpi4py", "mpich"], seed=0)


if __name__ == "__main__":
    main()
