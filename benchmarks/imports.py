"""What importing Paceline costs in fresh processes: on top of numpy, and on top of torch for a balanced loader.

Each process prints the time of the clock and its processor time. Figures are the minimum of several processes, because
other work on the machine can only add to it, with the median and the largest beside it. Modules are read as bytecode,
as they are where a package was installed. Goals: 100 ms for every public name that needs no torch; 50 ms for what a
balanced loader needs beyond torch.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from record import write_record

RUNS = 12
ON_TOP_OF_NUMPY = """
import sys, time
import numpy
NEED_TORCH = "Batch", "Collate", "Jagged", "Loader", "Packed", "in_step", "mean_loss", "pack_step", "packed"
begin, processor = time.perf_counter(), time.process_time()
import paceline
for name in paceline.__all__:
    if name not in NEED_TORCH:
        getattr(paceline, name)
assert "torch" not in sys.modules, "a name that needs torch is missing in NEED_TORCH"
print((time.perf_counter() - begin) * 1e3, (time.process_time() - processor) * 1e3)
"""
ON_TOP_OF_TORCH = """
import time
import torch, torch.distributed, torch.utils.data
begin, processor = time.perf_counter(), time.process_time()
from paceline import Batch, Loader, partition
from paceline.loader import Balancer
print((time.perf_counter() - begin) * 1e3, (time.process_time() - processor) * 1e3)
"""


def measure(code: str, folder: str) -> dict[str, dict[str, float]]:
    """Return what the code prints in several processes: least, median and most milliseconds."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
    command, found = [sys.executable, "-c", code], []
    for _ in range(RUNS + 1):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append([float(part) for part in done.stdout.split()])
    clock, processor = zip(*found[1:], strict=True)  # the first process writes the bytecode
    return {
        kind: {"least": min(values), "median": statistics.median(values), "most": max(values)}
        for kind, values in (("clock", clock), ("processor", processor))
    }


def main() -> None:
    figures = {}
    with tempfile.TemporaryDirectory(prefix="paceline-bytecode-") as folder:
        for name, code, limit in (("numpy", ON_TOP_OF_NUMPY, 100.0), ("torch", ON_TOP_OF_TORCH, 50.0)):
            row = figures[f"on top of {name}, ms"] = measure(code, folder)
            for kind, found in row.items():
                held = "reached" if found["least"] < limit else "MISSED"
                spread = f"median {found['median']:.0f}, most {found['most']:.0f}"
                print(
                    f"importing, on top of {name}, {kind}: {found['least']:.0f} ms ({spread}; goal {limit:g}: {held})"
                )
    write_record("imports", figures, packages=["numpy", "torch"], seed=0)


if __name__ == "__main__":
    main()
