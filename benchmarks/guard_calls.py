"""What the guard adds to one call, as processor time: watched and unwatched calls alternate within a process.

mpi4py is measured in a job of one rank that sends to itself, where nobody waits for anybody. With `--ranks 1 2` it is
measured between two as well: there only the time outside of mpi4py's own functions counts, because ranks that wait
poll, which is processor time too. torch is measured with a backend that does nothing, and between two ranks on gloo,
each beside a layer of plain Python that watches nothing: a thread that has slept takes several times as long for
whatever it runs next, since caches and branches belong to others by then. Each figure is a median with its quarters.
Goals: 1 microsecond for Barrier and a small Allreduce, 1.5 for messages, 2 for a call of torch.
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
from verdicts import verdict

WORKERS = Path(__file__).parent / "workers"
COLLECTIVE_LIMIT, MESSAGE_LIMIT, TORCH_LIMIT = 1.0, 1.5, 2.0


def run(script: str, ranks: int, carrier: str) -> dict[str, Any]:
    """Run a script under the guard; return what its first rank printed."""
    command = [sys.executable, "-m", "paceline", "run", "--", *local_command(ranks, carrier, [str(WORKERS / script)])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(command)} failed with code {done.returncode}:\n{done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def show(title: str, table: dict[str, Any]) -> None:
    print(f"\n{title}: microseconds per watched call")
    for call, row in table.items():
        parts = []
        for kind, figures in row.items():
            low, high = figures["added"]["quarters"]
            plain, median = figures["plain"]["median"], figures["added"]["median"]
            parts.append(f"{kind} {plain:.2f} {median:+.2f} ({low:+.2f} to {high:+.2f})")
        print(f"  {call:32} {'   '.join(parts)}")


def limit_of(call: str) -> float:
    """Return the goal for a call of mpi4py."""
    return COLLECTIVE_LIMIT if call.startswith(("Barrier", "Allreduce")) else MESSAGE_LIMIT


def verdicts(figures: dict[str, Any]) -> list[str]:
    """Compare with the goals."""
    lines = []
    for title, table in figures.items():
        for call, row in table.items():
            if "layer" in call:
                continue
            added, limit = row["processor"]["added"], limit_of(call) if "mpi4py" in title else TORCH_LIMIT
            said = f"{title}, {call}: {added['median']:+.2f} us"
            lines.append(f"  {verdict(added, at_most=limit):12} {said} (goal {limit:g} us)")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="*", default=[1], help="ranks of the jobs with mpi4py")
    options = parser.parse_args()
    figures = {
        f"mpi4py, ranks: {ranks}": run("mpi_paired.py" if ranks == 1 else "mpi_around.py", ranks, "mpi")
        for ranks in options.ranks
    }
    figures["torch on a backend that does nothing"] = run("torch_paired.py", 1, "torch")
    figures["torch on gloo, 2 ranks"] = run("torch_paired.py", 2, "torch")
    for title, table in figures.items():
        show(title, table)
    print("\ngoals")
    print("\n".join(verdicts(figures)))
    write_record("guard_calls", figures, packages=["torch", "mpi4py", "mpich"], seed=0)


if __name__ == "__main__":
    main()
