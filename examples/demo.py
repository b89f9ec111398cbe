"""What `make demo` shows: a job that hangs, the same job under the guard, the page of it, and a job that stays in line.

It ends with exit code 0 if everything went as it says, also where a command is meant to end with 90.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from paceline.cli.desktop.opened_page import has_display
from paceline.launch.leftovers import remove_leftovers, shared_files_now
from paceline.launch.mpiexec import find_mpiexec
from paceline.process.procfs import children_of, mapped_files

ROOT = Path(__file__).parents[1]
HANGING = "examples/classic.py"
NUM_RANKS = 7
FINDING_CODE = 90
PATIENCE_SECONDS = 5.0  # the job has milliseconds of work
START_SECONDS = 120.0  # at most, for all ranks to load MPI: about a second, if nothing else runs


class DemoError(Exception):
    """Something did not go as the demo says."""


def main() -> int:
    """Run each command as a user would; one that does not end as it should fails the demo."""
    parser = argparse.ArgumentParser(description="Show a job that hangs, its diagnosis, and a job that stays in line.")
    parser.add_argument("--users", help="number of users in the training at the end; fewer are faster")
    users = parser.parse_args().users
    try:
        tell("1. A job that hangs: 100 samples on 7 ranks, and the last rank gets fewer batches than the others.")
        show_hanging()
        tell("2. The same job, unchanged, under the guard: it names the rank, the line, the cause and what to change.")
        show("run", "-n", str(NUM_RANKS), HANGING, expected=FINDING_CODE)
        tell("3. A page of that run, for a browser: what each rank did, call by call.")
        show("report", "paceline-out", *(["--open"] if has_display(os.environ) else []))
        tell(
            "4. A ranking model that stays in line on 4 ranks: equal steps, and even work. Imbalance is the work of the"
            " heaviest rank divided by the mean, before -> after balancing."
        )
        show("run", "-n", "4", "examples/ranking/train.py", *(["--users", users] if users else []))
    except DemoError as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return 1
    tell("Now try your own job: . .venv/bin/activate, then paceline run -n 4 train.py, or paceline run -- torchrun ...")
    return 0


def tell(text: str) -> None:
    """Print what comes next."""
    print(f"\n# {text}", flush=True)


def show_hanging() -> None:
    """Start the job without the guard, and stop it when it has shown that it does not end."""
    shared_files = shared_files_now()
    print(f"$ mpiexec -n {NUM_RANKS} python {HANGING}", flush=True)
    command = [*find_mpiexec().command(NUM_RANKS), sys.executable, HANGING]
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as job:
            try:
                wait_until(lambda: num_ranks_in_mpi(job.pid) == NUM_RANKS, START_SECONDS, job)
                has_ended = wait_until(lambda: False, PATIENCE_SECONDS, job)
                output.seek(0)
                said = output.read().strip()  # before we stop it, of which mpiexec tells
            finally:
                job.terminate()  # mpiexec ends its ranks
        remove_leftovers(shared_files)
    if has_ended:
        raise DemoError(f"the job ended by itself and should have hung; it printed: {said}")
    print(said or "(it prints nothing)")
    print(f"(all {NUM_RANKS} ranks have been running for {PATIENCE_SECONDS:g} s; stopped)", flush=True)


def num_ranks_in_mpi(launcher: int) -> int:
    """Return how many ranks of a launcher have loaded MPI."""
    num = 0
    for pid in children_of([launcher]):
        with contextlib.suppress(OSError):  # it has just ended
            num += any("mpi4py" in name for name in mapped_files(pid))
    return num


def wait_until(is_so: Callable[[], bool], seconds: float, job: subprocess.Popen[bytes]) -> bool:
    """Wait until something is so, at most for some seconds; say whether the job has ended meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and job.poll() is None and not is_so():
        time.sleep(0.1)
    return job.poll() is not None


def show(*arguments: str, expected: int = 0) -> None:
    """Print a command, run it, and print its exit code."""
    print(f"$ paceline {' '.join(arguments)}", flush=True)
    began = time.monotonic()
    code = paceline(arguments)
    print(f"(exit code {code}, after {time.monotonic() - began:.1f} s)", flush=True)
    if code != expected:
        raise DemoError(f"`paceline {' '.join(arguments)}` should have ended with exit code {expected}, not {code}")


def paceline(arguments: Sequence[str]) -> int:
    """Run a verb of paceline in the folder of the clone; return its exit code."""
    return subprocess.run([sys.executable, "-m", "paceline", *arguments], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
