"""Injects faults into jobs for as long as one likes, and counts what did not hold: `make chaos SECONDS=600 SEED=0`.

As root it runs in a mount namespace of its own, with a /dev/shm that jobs may fill.

A record grows: each run adds its part, with the commit that it was run at, and no seed counts twice.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
from tests.chaos.promises import Outcome, run_scenario  # noqa: E402
from tests.chaos.scenarios import Fault, draw  # noqa: E402

from record import commit, kept_figures, write_record  # noqa: E402

_OWN_MEMORY = "PACELINE_CHAOS_OWN_MEMORY"
_EVERY = 25  # faults: so that one sees how far it is
_COLUMNS = ("injected", "found", "wrong", "lost", "leaked", "hung")


def build_spoiled_calls(folder: Path) -> Path | None:
    """Compile what spoils the clock and the disk; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "spoiled_calls.so"
    source = Path(__file__).parent / "spoiled_calls.c"
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True)
    return library


def enter_own_memory() -> None:
    """Start again with a /dev/shm that is nobody else's, if that is allowed."""
    if os.geteuid() == 0 and shutil.which("unshare") and _OWN_MEMORY not in os.environ:
        mount = 'mount -t tmpfs -o size=512m tmpfs /dev/shm && exec "$@"'
        again = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, *sys.argv]
        if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0:
            os.execvpe(again[0], again, {**os.environ, _OWN_MEMORY: "1"})


def impossible_faults(*, has_compiler: bool) -> set[Fault]:
    """Return what cannot be injected here, and say why: the same seed then draws something else."""
    without: set[Fault] = set()
    if _OWN_MEMORY not in os.environ:
        print("/dev/shm is shared with others: it is not filled")
        without.add(Fault.FULL_MEMORY)
    if not has_compiler:
        print("there is no C compiler: neither the clock nor the disk is spoiled")
        without |= {Fault.CLOCK, Fault.NO_SPACE}
    return without


def print_table(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """Print and return how it went, by fault."""
    table: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(_COLUMNS, 0))
    for outcome in outcomes:
        flags = (outcome.was_reached, outcome.is_found, outcome.is_wrong, outcome.is_lost, outcome.is_leaked,
                 outcome.has_hung)  # fmt: skip
        for row in (table[outcome.scenario.fault], table["all"]):
            for name, flag in zip(_COLUMNS, flags, strict=True):
                row[name] += flag
    rows = sorted(table.items(), key=lambda row: row[0] == "all")
    print(f"\n{'fault':20}" + "".join(f"{name:>10}" for name in _COLUMNS))
    for fault, row in rows:
        print(f"{fault:20}" + "".join(f"{row[name]:>10}" for name in _COLUMNS))
    return dict(rows)


def kept_parts() -> list[dict[str, Any]]:
    """Return the parts of the record."""
    kept = kept_figures("chaos")
    return kept["parts"] if kept is not None else []


def add_to_record(outcomes: Iterable[Outcome], table: dict[str, dict[str, int]], *, seeds: tuple[int, int]) -> None:
    """Write the record with one part more, and the sums over all of them."""
    not_held = [
        {"seed": outcome.scenario.seed, "scenario": str(outcome.scenario), "problems": outcome.problems[:-1]}
        for outcome in outcomes
        if outcome.problems
    ]
    part = {"commit": commit(), "first_seed": seeds[0], "last_seed": seeds[1], "table": table, "not_held": not_held}
    parts = [*kept_parts(), part]
    rows = sorted({fault for part in parts for fault in part["table"]}, key=lambda fault: (fault == "all", fault))
    sums = {
        fault: {name: sum(part["table"].get(fault, {}).get(name, 0) for part in parts) for name in _COLUMNS}
        for fault in rows
    }
    write_record("chaos", {"table": sums, "parts": parts}, packages=["torch", "mpi4py", "mpich"], seed=seeds[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long to go on")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the next ones follow")
    parser.add_argument("--faults", type=int, help="how many, whatever the time")
    parser.add_argument("--record", action="store_true", help="add the table to the record under benchmarks/results")
    options = parser.parse_args()
    last = max((part["last_seed"] for part in kept_parts()), default=-1)
    if options.record and options.seed <= last:
        parser.error(f"the record has seeds up to {last}: begin at --seed {last + 1}")
    enter_own_memory()
    outcomes: list[Outcome] = []
    deadline = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="chaos-tools") as folder:
        spoiled_calls = build_spoiled_calls(Path(folder))
        without = impossible_faults(has_compiler=spoiled_calls is not None)
        seed = options.seed
        while len(outcomes) < options.faults if options.faults else time.monotonic() < deadline:
            outcome = run_scenario(draw(seed, without=without), spoiled_calls)
            if outcome.was_reached or outcome.problems:
                outcomes.append(outcome)
                if len(outcomes) % _EVERY == 0:
                    print(f"{len(outcomes)} faults; this was seed {seed}", flush=True)
            if outcome.problems:
                print(f"{outcome.scenario}\n  " + "\n  ".join(outcome.problems), flush=True)
            seed += 1
    table = print_table(outcomes)
    if options.record:
        add_to_record(outcomes, table, seeds=(options.seed, seed - 1))
    return int(any(outcome.problems for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
