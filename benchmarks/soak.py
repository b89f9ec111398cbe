"""A long correct job under the guard: eight ranks, ten minutes, communicators made and freed, groups and threads.

It must end well, without a finding or a warning. Memory of ranks and of the guard, and the records in shared memory,
must be flat once each rank has filled its ring: from then on, the last fifth of the time is held against the second.
`--calls` makes it shorter.

Shared memory counts once, as records. The kernel adds each page of it to every process that has touched it: the guard
would seem to grow until each rank has filled its ring for the first time. It may not touch more than the records have.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from paceline.launch.mpiexec import find_mpiexec
from paceline.process.own_programs import own_module
from paceline.process.procfs import environ_of
from record import write_record

SEED = 0
HERE = Path(__file__).parent
MOST_GROWTH = 1.02
LEAST_SHARE = 0.4  # of the time: what is measured in a moment at the end may hide that something grows all the time
_MARK = "PACELINE_SOAK"
_EVERY_SECONDS = 1.0
_FULL = 0.98  # of the records that the guard reads in the end: texts come in all the time


def memory_kib(pid: int) -> dict[str, int]:
    """Return the memory of a process: all of it, and what of it is shared; nothing once it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    lines = dict(line.split(":") for line in status.splitlines())
    names = {"all": "VmRSS", "shared": "RssShmem"}  # they are not there while it ends
    return {key: int(lines[name].split()[0]) for key, name in names.items() if name in lines}


def ranks_of(mark: str) -> dict[int, int]:
    """Return the processes of all ranks that have been started: rank -> process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        environment = environ_of(int(path.name))
        if environment.get(_MARK) == mark and "PMI_RANK" in environment:
            found[int(environment["PMI_RANK"])] = int(path.name)
    return found


def size_of(folder: Path) -> int:
    """Return the bytes that the files of a folder take."""
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir()) if folder.is_dir() else 0


def watch(process: subprocess.Popen[bytes], mark: str, num_ranks: int) -> dict[str, list[int]]:
    """Measure everything once a second, while all ranks are there."""
    measured: dict[str, list[int]] = {}
    ranks: dict[int, int] = {}
    folder = Path()
    while process.poll() is None:
        if len(ranks) < num_ranks:
            ranks = ranks_of(mark)
            folder = Path(environ_of(next(iter(ranks.values()))).get("PACELINE_RUN_FOLDER", "")) if ranks else folder
        else:
            guard = memory_kib(process.pid)
            values = {f"rank {rank}": memory_kib(pid).get("all") for rank, pid in sorted(ranks.items())}
            if not guard or None in values.values():
                break  # the job is over: the guard looks back at it, and loads what it needs for that
            values |= {"guard": guard["all"] - guard["shared"], "records that it reads": guard["shared"]}
            values["records"] = size_of(folder) >> 10
            for name, value in values.items():
                measured.setdefault(name, []).append(value or 0)
        time.sleep(_EVERY_SECONDS)
    return measured


def after_warm_up(measured: dict[str, list[int]]) -> dict[str, list[int]]:
    """Leave out the time in which ranks fill their rings for the first time: the guard learns more and more of them."""
    read = measured.get("records that it reads", [])
    begin = next((number for number, value in enumerate(read) if value >= _FULL * max(read)), 0)
    return {name: values[begin:] for name, values in measured.items()}


def growth(values: list[int]) -> dict[str, float]:
    """Return how much more there was in the last fifth of the time than in the second."""
    fifth = len(values) // 5
    before, after = statistics.median(values[fifth : 2 * fifth]), statistics.median(values[-fifth:])
    return {"before_kib": before, "after_kib": after, "growth": round(after / before, 4)}


def soak(num_calls: int, num_ranks: int) -> dict[str, Any]:
    """Run the job, and return what was measured."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    with tempfile.TemporaryDirectory(prefix="soak") as name:
        folder = Path(name)
        worker = [sys.executable, str(HERE / "workers" / "soak_calls.py"), str(num_calls // num_ranks), name]
        launch = [*find_mpiexec().command(num_ranks, clean_up=True), *worker]
        command = [*own_module("paceline"), "run", "--json", "outcome.json", "--notice", "100000", "--", *launch]
        began = time.monotonic()
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, _MARK: mark, "OMP_NUM_THREADS": "1"})
        measured = watch(process, mark, num_ranks)
        process.wait()
        outcome = json.loads((folder / "outcome.json").read_text())
        calls = sum(int(path.read_text()) for path in folder.glob("calls.*"))
    warm = after_warm_up(measured)
    return {
        "num_ranks": num_ranks,
        "cores": len(os.sched_getaffinity(0)),
        "calls": calls,
        "seconds": round(time.monotonic() - began, 1),
        "exit_code": process.returncode,
        "finding": outcome["finding"] and outcome["finding"]["summary"],
        "warnings": [warning["summary"] for warning in outcome["warnings"]],
        "memory": {name: growth(values) for name, values in warm.items() if len(values) >= 5},
        "measured_share": round(
            len(after_warm_up(measured).get("guard", [])) / max(1, len(measured.get("guard", []))), 2
        ),
        "most_kib": {name: max(measured.get(name, [0])) for name in ("records", "records that it reads")},
    }


def problems_of(figures: dict[str, Any], num_calls: int) -> list[str]:
    """Return what did not hold."""
    found = [f"{name}: {value}" for name in ("exit_code", "finding", "warnings") if (value := figures[name])]
    if figures["calls"] < num_calls:
        found.append(f"only {figures['calls']:,} calls were made")
    for name in ("guard", "records", *(f"rank {rank}" for rank in range(figures["num_ranks"]))):
        grown = figures["memory"].get(name)
        if grown is None:
            found.append(f"{name} was not measured: make more calls")
        elif grown["growth"] > MOST_GROWTH:
            found.append(f"{name} has grown from {grown['before_kib']:.0f} to {grown['after_kib']:.0f} KiB")
    if figures["measured_share"] < LEAST_SHARE:
        found.append(f"rings were full for {figures['measured_share']:.0%} of the time: make more calls")
    if figures["most_kib"]["records that it reads"] > figures["most_kib"]["records"]:
        found.append(f"the guard has shared memory that is not records: {figures['most_kib']}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000_000, help="of all ranks together")
    parser.add_argument("--ranks", type=int, default=8, help="an even number")
    parser.add_argument("--record", action="store_true", help="keep the figures under benchmarks/results")
    options = parser.parse_args()
    figures = soak(options.calls, options.ranks)
    figures["problems"] = problems_of(figures, options.calls)
    print(json.dumps(figures, indent=2))
    if options.record:
        write_record("soak", figures, packages=["mpi4py", "mpich"], seed=SEED)
    return int(bool(figures["problems"]))


if __name__ == "__main__":
    sys.exit(main())
