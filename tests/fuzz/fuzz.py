"""Spoils inputs of all kinds, as many as one likes, and counts what came of them: `make fuzz INPUTS=100000 SEED=0`.

Each kind runs in a process of its own, so that what one of them does to its memory is seen.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]
from tests.fuzz.fuzzing import MEMORY_BYTES, fuzz  # noqa: E402
from tests.fuzz.kinds import all_kinds  # noqa: E402

from record import write_record  # noqa: E402

_AT_ONCE = 2
_PACKAGES = ["numpy", "torch", "pyyaml", "h5py", "pyarrow", "pillow"]


def try_kind(name: str, num_inputs: int, seed: int) -> dict[str, Any]:
    """Try one kind in a process of its own, and return what came of it."""
    command = [sys.executable, __file__, "--kind", name, "--inputs", str(num_inputs), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):  # a library in C may have crashed
        problem = f"it ended with code {done.returncode}: {done.stderr[-2000:]}"
        outcome = {"num_inputs": num_inputs, "problems": [problem], "num_refused": 0, "grown_bytes": 0, "seconds": 0}
    print(
        f"{name:40}{outcome['num_inputs']:>9}{outcome['num_refused']:>9} refused{outcome['seconds']:>9} s", flush=True
    )
    for problem in outcome["problems"]:
        print(f"  {problem}", flush=True)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=20_000, help="how many in all; each kind has its share")
    parser.add_argument("--seed", type=int, default=0, help="repeats its inputs")
    parser.add_argument("--kind", help="this kind alone, in this process, with all the inputs")
    parser.add_argument("--record", action="store_true", help="keep the table under benchmarks/results")
    options = parser.parse_args()
    kinds = all_kinds()
    if options.kind:
        with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
            outcome = fuzz(
                options.kind, kinds[options.kind], Path(folder), num_inputs=options.inputs, seed=options.seed
            )
        print(json.dumps({**asdict(outcome), "problems": outcome.problems()}))
        return int(bool(outcome.problems()))
    one = options.inputs / sum(kind.share for kind in kinds.values())
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        tried = pool.map(lambda name: try_kind(name, math.ceil(one * kinds[name].share), options.seed), kinds)
        outcomes = dict(zip(kinds, tried, strict=True))
    num_inputs = sum(outcome["num_inputs"] for outcome in outcomes.values())
    num_bad = sum(bool(outcome["problems"]) for outcome in outcomes.values())
    print(f"{num_inputs:,} inputs of {len(kinds)} kinds; kinds that did not hold: {num_bad}")
    if options.record:
        figures = {"num_inputs": num_inputs, "memory_limit_bytes": MEMORY_BYTES, "kinds": outcomes}
        write_record("fuzz", figures, packages=_PACKAGES, seed=options.seed)
    return int(bool(num_bad))


if __name__ == "__main__":
    sys.exit(main())
