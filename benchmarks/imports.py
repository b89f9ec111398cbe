"""What importing every public name that needs no torch costs, on top of numpy, in fresh processes.

The figure is the minimum of several processes, because other work on the machine can only add to it. Goal: 100 ms.
"""

from __future__ import annotations

import subprocess
import sys

from record import write_record

RUNS, LIMIT = 20, 100.0
CODE = """
import time
import numpy
begin = time.perf_counter()
import paceline
for name in paceline.__all__:
    if name not in ("Batch", "Collate", "Jagged", "Loader", "in_step", "mean_loss"):  # these need torch
        getattr(paceline, name)
print((time.perf_counter() - begin) * 1e3)
"""


def main() -> None:
    figures = [
        float(subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout)
        for _ in range(RUNS)
    ]
    least = min(figures)
    print(f"importing, on top of numpy: {least:.0f} ms (goal {LIMIT:g}: {'reached' if least < LIMIT else 'MISSED'})")
    write_record("imports", {"milliseconds": least}, packages=["numpy"], seed=0)


if __name__ == "__main__":
    main()
