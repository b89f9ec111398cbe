"""What `reader.balance` gains `paceline bench`, on samples of very different length, in one run.

Two ranks of torch on gloo make the steps of the workload `ragged`: lists of 16 KiB on average, a step that takes as
long as its rank has bytes, during which the rank sleeps, and a barrier. Nothing is evened out (`none`), steps are
planned by the lengths (`plan`), or rows of loaded batches move between ranks (`exchange`). The three take turns, and
each is compared with the `none` of its round: with an accelerator that takes 20 ms for a step, and with one that takes
2 ms, where moving rows may cost more than it saves, and then they are to be left alone.

Goal: `exchange` is never below `none`. Runs of the same kind differ by some percent, so it must have at least 0.98 of
its utilisation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from record import write_record
from verdicts import shown, spread, verdict

RANKS, SEED, EPOCHS, SCALE = 2, 123, 2, 0.03
MODES = ("none", "plan", "exchange")
GOAL = 0.98
SECONDS = (0.02, 0.002)  # what a step of mean length takes


def run(folder: Path, mode: str, seconds: float) -> dict[str, float]:
    """Run the workload; return its utilisation, and the processor time of loading a sample."""
    paceline = [sys.executable, "-m", "paceline", "bench", "run", "ragged", "--scale", str(SCALE), "-n", str(RANKS)]
    settings = {
        "reader.balance": mode,
        "train.computation_time": seconds,
        "train.epochs": EPOCHS,
        "dataset.data_folder": folder / "data",
    }
    overrides = [f"{name}={value}" for name, value in settings.items()]
    command = [*paceline, "--carrier", "torch", "--out", str(folder / "out"), *overrides]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
    told = json.loads((folder / "out" / "summary.json").read_text())
    return {
        "utilisation": told["metric"]["train_au_mean_percentage"],
        "processor_microseconds_per_sample": 1e6 * told["paceline"]["cpu_seconds_per_sample"],
    }


def measure(folder: Path, seconds: float, rounds: int) -> dict[str, Any]:
    """Compare the modes in rounds."""
    told: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    for number in range(rounds):
        for mode in MODES:
            told[mode].append(run(folder, mode, seconds))
        said = ", ".join(f"{mode} {runs[-1]['utilisation']:.1f} %" for mode, runs in told.items())
        print(f"{seconds * 1e3:g} ms, round {number}: {said}", flush=True)
    figures: dict[str, Any] = {"milliseconds_of_a_step": seconds * 1e3, "rounds": rounds, "modes": {}}
    for mode, runs in told.items():
        pairs = [one["utilisation"] / other["utilisation"] for one, other in zip(runs, told["none"], strict=True)]
        figures["modes"][mode] = {
            "utilisation": statistics.median(each["utilisation"] for each in runs),
            "of_none": spread(pairs),
            "processor_microseconds_per_sample": statistics.median(
                each["processor_microseconds_per_sample"] for each in runs
            ),
        }
    figures["exchange_verdict"] = verdict(figures["modes"]["exchange"]["of_none"], at_least=GOAL)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate = [sys.executable, "-m", "paceline", "bench", "generate", "ragged", "--scale", str(SCALE)]
        subprocess.run([*generate, f"dataset.data_folder={folder / 'data'}"], check=True)
        for seconds in SECONDS:
            figures.append(measure(folder, seconds, options.rounds))
    for row in figures:
        for mode, each in row["modes"].items():
            said = f", {row['exchange_verdict']}" if mode == "exchange" else ""
            print(
                f"{row['milliseconds_of_a_step']:g} ms, {mode}: utilisation {each['utilisation']:.1f} %, "
                f"{shown(each['of_none'])} of none{said}; {each['processor_microseconds_per_sample']:.0f} us a sample"
            )
    write_record("bench_balance", {"goal": GOAL, "cases": figures}, packages=["torch", "numpy", "paceline"], seed=SEED)


if __name__ == "__main__":
    main()
