"""What the benchmark itself costs, compared with a bare loop of torch's DataLoader and with DLIO, in one run.

All read the same 2,000 npz files of 64 KiB, in batches of 8, on two MPI ranks with a barrier in each step, for three
epochs; runs alternate, and each is compared with its neighbour. The bare loop reads with numpy, as people do, and once
more with the benchmark's own reader of npz files, which is faster: that ratio is the cost of the harness alone.
`paceline bench run` is watched by the guard, as always.

Each case is measured twice: with an accelerator that takes 2 ms for a step, during which ranks sleep, and with one that
takes no time at all. In the second case a step takes a third of a millisecond, and ranks that wait spin in their
barrier, so on two cores the process that watches takes its time from them. The processor time of loading a sample is
given as well. Then the cost of a sample and the memory of a rank are measured with more and more files, which need not
exist.

DLIO comes from PyPI into an environment of its own, if it can be installed and imported; its files are written
separately, in its own layout (one npz file for each sample, 64 KiB).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from paceline.bench.data.files import Files
from paceline.bench.data.formats import format_of
from paceline.bench.data.store import Store
from paceline.bench.training.samples import Samples
from paceline.bench.workload.workload import load_workload, parse_workload
from paceline.errors import InputError
from paceline.launch.mpiexec import find_mpiexec
from record import write_record
from verdicts import shown, spread, verdict

FILES, RECORD, BATCH, EPOCHS, RANKS, SEED = 2000, 65_536, 8, 3, 2, 123
ROOT = Path(__file__).parents[1]
DLIO_VENV = ROOT / ".venv-dlio"
# what DLIO imports, without TensorFlow and DALI, which it loads only if a workload asks for them
DLIO = [
    "dlio-benchmark==2.0.0",
    "hydra-core",
    "omegaconf",
    "antlr4-python3-runtime==4.9.3",
    "pydftracer==1.0.2",
    "pandas",
    "pytz",
    "tzdata",
]
# replaces TensorFlow, which DLIO always imports but uses only for its own workloads
STUBS = {
    "tensorflow/__init__.py": "def __getattr__(name):\n"
    "    if name.startswith('__'):\n"
    "        raise AttributeError(name)\n"
    "    return type(name, (), {})\n",
    "tensorflow/python/__init__.py": "",
    "tensorflow/python/framework/__init__.py": "errors = None\n",
}
# the MPI next to mpi4py is found from the environment it is installed in, not from one that borrows it
DLIO_ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": f"{sys.prefix}/lib", "DFTRACER_ENABLE": "0"}
RATE_GOAL, FIRST_GOAL, DLIO_GOAL = 0.95, 1.1, 5.0
COMPUTES = (0.002, 0.0)  # seconds of a step
COUNTS = (400, 10_000, 1_000_000, 64_000_000)


class Virtual(Store):
    """One file in memory that stands for all."""

    def __init__(self, content: bytes) -> None:
        super().__init__("virtual")
        self._content = content

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_content": self._content}

    def read(self, path: str) -> bytes:
        """Return the same content for every name."""
        return self._content


def run_bare(folder: Path, workers: int, compute: float, *, same_reader: bool = False) -> dict[str, Any]:
    result = folder / "bare.json"
    program = [sys.executable, str(ROOT / "benchmarks" / "workers" / "bare_loading.py")]
    numbers = [str(number) for number in (FILES, BATCH, EPOCHS, workers, compute)]
    command = [*find_mpiexec().command(RANKS), *program, str(folder / "data"), *numbers, str(result)]
    command += [str(folder / "workload.yaml")] if same_reader else []
    subprocess.run(command, check=True, env={**os.environ, "BEGAN": str(time.time())}, timeout=600)
    told: dict[str, Any] = json.loads(result.read_text())
    return told


def run_ours(folder: Path, workers: int, compute: float) -> dict[str, Any]:
    out = folder / "out"
    command = [sys.executable, "-m", "paceline", "bench", "run", str(folder / "workload.yaml"), "-n", str(RANKS)]
    command += ["--carrier", "mpi", "--out", str(out), f"reader.read_threads={workers}"]
    command += [f"train.computation_time={compute}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
    told = json.loads((out / "summary.json").read_text())
    samples = told["plan"]["train"]["num_used"]
    more = told["paceline"]
    return {
        "first": more["time_to_first_batch_seconds"],
        "rates": [samples / seconds for seconds in more["epoch_seconds"]],
        "cpu_us_per_sample": 1e6 * more["cpu_seconds_per_sample"],
    }


def install_dlio() -> str | None:
    """Create DLIO's environment; return why that failed, or None."""
    python = DLIO_VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(DLIO_VENV)], check=True)
        packages = next((DLIO_VENV / "lib").glob("python3.*")) / "site-packages"
        (packages / "borrowed.pth").write_text(
            f"{next((ROOT / '.venv' / 'lib').glob('python3.*')) / 'site-packages'}\n"
        )
        environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
        made = subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", "--no-deps", *DLIO],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        if made.returncode:
            return f"pip: {made.stderr.strip().splitlines()[-1]}"
        for path, text in STUBS.items():
            (packages / path).parent.mkdir(parents=True, exist_ok=True)
            (packages / path).write_text(text)
    asked = [str(python), "-c", "import dlio_benchmark.main"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, cwd="/", env=DLIO_ENVIRONMENT)
    return f"import: {done.stderr.strip().splitlines()[-1]}" if done.returncode else None


def dlio_command(folder: Path, *overrides: str) -> list[str]:
    common = [
        "workload=default", "++workload.framework=pytorch", f"++workload.dataset.data_folder={folder}/dlio",
        "++workload.dataset.format=npz", f"++workload.dataset.num_files_train={FILES}",
        "++workload.dataset.num_files_eval=0", f"++workload.dataset.record_length={RECORD}",
        "++workload.dataset.num_subfolders_train=0", f"++workload.reader.batch_size={BATCH}",
        "++workload.reader.data_loader=pytorch", "++workload.reader.read_threads=0",
        f"++workload.train.epochs={EPOCHS}",
        "++workload.train.computation_time=0", "++workload.workflow.evaluation=False",
        f"++workload.output.folder={folder}/dlio-out", f"hydra.run.dir={folder}/dlio-out",
    ]  # fmt: skip
    program = [str(DLIO_VENV / "bin" / "python"), "-m", "dlio_benchmark.main"]
    return [*find_mpiexec().command(RANKS), *program, *common, *overrides]


def call_dlio(folder: Path, *overrides: str) -> None:
    done = subprocess.run(
        dlio_command(folder, *overrides),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env=DLIO_ENVIRONMENT,
        cwd=folder,
    )
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise RuntimeError(f"DLIO has ended with code {done.returncode}: {last}")


def run_dlio(folder: Path) -> dict[str, Any]:
    call_dlio(folder, "++workload.workflow.train=True", "++workload.workflow.generate_data=False")
    told = json.loads((folder / "dlio-out" / "per_epoch_stats.json").read_text())
    return {"rates": [FILES / float(epoch["duration"]) for epoch in told.values()]}


def dlio_workloads() -> dict[str, str]:
    """Read DLIO's own workload files; return the result for each."""
    found = {}
    for path in sorted(DLIO_VENV.rglob("dlio_benchmark/configs/workload/*.yaml")):
        try:
            load_workload(str(path))
            found[path.stem] = "read"
        except InputError as error:
            found[path.stem] = str(error).partition(": ")[2]
    return found


def cost_of(num_files: int) -> dict[str, float]:
    """Read a part of `num_files` files, which need not exist, in this process."""
    from paceline import Loader, connect

    described = parse_workload({"dataset": {"num_files_train": num_files, "record_length_bytes": 4096}}, "virtual")
    files = Files(described.workload.dataset, "train")
    store = Virtual(bytes(format_of(files).encode([files.content(0)])))
    before = psutil.Process().memory_info().rss
    samples, steps = Samples(described.workload, "train", store), min(num_files // BATCH, 2000) - 1
    with Loader(samples, batch_size=BATCH, tail="drop", seed=SEED, comm=connect("alone")) as loader:
        batches = iter(loader)
        next(batches)
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            next(batches)
        seconds, used = time.perf_counter() - began, time.process_time() - cpu
    return {
        "num_files": num_files,
        "us_per_sample": 1e6 * seconds / steps / BATCH,
        "cpu_us_per_sample": 1e6 * used / steps / BATCH,
        "memory_mib": (psutil.Process().memory_info().rss - before) / 2**20,
    }


def costs(rounds: int) -> list[dict[str, float]]:
    """Measure each number of files in processes of their own, alternating; return the medians."""
    told: dict[int, list[dict[str, float]]] = {count: [] for count in COUNTS}
    for _ in range(rounds):
        for count in COUNTS:
            done = subprocess.run(
                [sys.executable, __file__, "--cost-of", str(count)], capture_output=True, text=True, check=True
            )
            told[count].append(json.loads(done.stdout))
    return [
        {name: statistics.median(each[name] for each in made) for name in made[0]} for made in told.values()
    ]  # fmt: skip


def middle(runs: list[dict[str, Any]]) -> float:
    return float(statistics.median(rate for each in runs for rate in each["rates"]))


def alternate(folder: Path, rounds: int, workers: int, compute: float, dlio: bool) -> dict[str, list[dict[str, Any]]]:
    told: dict[str, list[dict[str, Any]]] = {"bare": [], "same_reader": [], "ours": [], "dlio": []}
    for number in range(rounds):
        told["bare"].append(run_bare(folder, workers, compute))
        told["same_reader"].append(run_bare(folder, workers, compute, same_reader=True))
        told["ours"].append(run_ours(folder, workers, compute))
        if dlio and workers == 0 and not compute:
            told["dlio"].append(run_dlio(folder))
        said = ", ".join(f"{name} {middle(made[-1:]):,.0f}" for name, made in told.items() if made)
        print(f"{workers} workers, {compute:g} s of compute, round {number}: {said} samples/s", flush=True)
    return told


def judge(told: dict[str, list[dict[str, Any]]], workers: int, compute: float) -> dict[str, Any]:
    """Compare the sides: the ratios of each round, their median and quarters."""

    def ratios(other: str, figure: Callable[[dict[str, Any]], float]) -> dict[str, Any]:
        return spread([figure(ours) / figure(one) for ours, one in zip(told["ours"], told[other], strict=True)])

    def rate(run: dict[str, Any]) -> float:
        return middle([run])

    same, first = ratios("same_reader", rate), ratios("bare", lambda run: float(run["first"]))
    made: dict[str, Any] = {
        "workers": workers,
        "compute_seconds": compute,
        "samples_per_second": {name: middle(runs) for name, runs in told.items() if runs},
        "seconds_to_first_batch": {name: [each["first"] for each in told[name]] for name in ("bare", "ours")},
        "of_bare": ratios("bare", rate),
        "of_bare_with_the_same_reader": same,
        "rate_verdict": verdict(same, at_least=RATE_GOAL),
        "cpu_of_bare_with_the_same_reader": ratios("same_reader", lambda run: float(run["cpu_us_per_sample"])),
        "first_batch_of_bare": first,
        "first_batch_verdict": verdict(first, at_most=FIRST_GOAL),
    }
    if told["dlio"]:
        made["of_dlio"] = of_dlio = ratios("dlio", rate)
        made["dlio_verdict"] = verdict(of_dlio, at_least=DLIO_GOAL)
    return made


def show(case: dict[str, Any]) -> None:
    """Print a case, a figure a line."""
    print(f"{case['workers']} workers, {case['compute_seconds']:g} s of compute, relative to a bare loop:")
    print(f"  samples/s {shown(case['of_bare'])}")
    print(f"  samples/s with the same reader {shown(case['of_bare_with_the_same_reader'])}, {case['rate_verdict']}")
    print(f"  processor time of loading with the same reader {shown(case['cpu_of_bare_with_the_same_reader'])}")
    print(f"  time to the first batch {shown(case['first_batch_of_bare'])}, {case['first_batch_verdict']}")
    if "of_dlio" in case:
        print(f"  samples/s, relative to DLIO {shown(case['of_dlio'])}, {case['dlio_verdict']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cost-of", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cost_of:
        print(json.dumps(cost_of(options.cost_of)))
        return
    goals = {"of_bare_with_the_same_reader": RATE_GOAL, "first_batch_of_bare": FIRST_GOAL, "of_dlio": DLIO_GOAL}
    figures: dict[str, Any] = {"rounds": options.rounds, "goals": goals, "cases": []}
    reason = install_dlio()
    figures["dlio"] = reason or "installed"
    figures["dlio_workloads"] = dlio_workloads()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = {"data_folder": str(folder / "data"), "num_files_train": FILES, "record_length_bytes": RECORD}
        (folder / "workload.yaml").write_text(
            json.dumps(
                {
                    "dataset": data,
                    "reader": {"batch_size": BATCH, "sample_shuffle": "seed"},
                    "train": {"epochs": EPOCHS},
                }
            )
        )
        subprocess.run(
            [sys.executable, "-m", "paceline", "bench", "generate", str(folder / "workload.yaml"), "-n", "2"],
            check=True,
        )
        if reason is None:
            try:
                call_dlio(folder, "++workload.workflow.generate_data=True", "++workload.workflow.train=False")
            except RuntimeError as error:
                reason = figures["dlio"] = str(error)
        print(f"DLIO: {figures['dlio']}")
        for workers, compute in itertools.product((0, 1), COMPUTES):
            told = alternate(folder, options.rounds, workers, compute, reason is None)
            figures["cases"].append(judge(told, workers, compute))
    figures["virtual"] = costs(min(options.rounds, 5))
    for case in figures["cases"]:
        show(case)
    for count in figures["virtual"]:
        print(
            f"{count['num_files']:>11,.0f} files: {count['cpu_us_per_sample']:.0f} us of processor per sample, "
            f"{count['memory_mib']:.1f} MiB"
        )
    write_record("bench_overhead", figures, packages=["torch", "numpy", "mpi4py"], seed=SEED)


if __name__ == "__main__":
    main()
