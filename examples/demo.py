"""What `make demo` shows: a job that hangs, the same job under the guard, the page of it, and a job that stays in line.

It ends with exit code 0 if everything went as it says, also where a command is meant to end with 90.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from paceline.cli.opened_page import has_display
from paceline.launch.mpi_leftovers import mpi_files_now, remove_mpi_leftovers
from paceline.launch.mpiexec import find_mpiexec

ROOT = Path(__file__).parents[1]
HANGING = ("examples/classic.py",)
NUM_RANKS = 7
FINDING_CODE = 90
PATIENCE_SECONDS = 8.0  # the job has milliseconds of work, and takes about a second to start


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
        tell("2. The same job, unchanged, under the guard.")
        show("run", "-n", str(NUM_RANKS), *HANGING, expected=FINDING_CODE)
        tell("3. A page of that run: who was where, call by call.")
        show("report", "paceline-out", *(["--open"] if has_display(os.environ) else []))
        tell("4. A ranking model on 4 ranks that stays in line: even work, a padded tail, every sample evaluated once.")
        show("run", "-n", "4", "examples/ranking/train.py", *(["--users", users] if users else []))
    except DemoError as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return 1
    tell("Now your own job: . .venv/bin/activate, then paceline run -n 4 train.py, or paceline run -- torchrun ...")
    return 0


def tell(text: str) -> None:
    """Print what comes next."""
    print(f"\n# {text}", flush=True)


def show_hanging() -> None:
    """Start the job without the guard, and stop it when it has shown that it does not end."""
    mpi_files = mpi_files_now()
    print(f"$ mpiexec -n {NUM_RANKS} python {HANGING[0]}", flush=True)
    command = [*find_mpiexec().command(NUM_RANKS), sys.executable, *HANGING]
    with subprocess.Popen(command, cwd=ROOT) as job:
        try:
            code = wait_for(job)
        finally:
            job.terminate()  # mpiexec ends its ranks
    remove_mpi_leftovers(mpi_files)
    if code is not None:
        raise DemoError(f"the job ended by itself with code {code}, and should have hung")
    print(f"(it was still running after {PATIENCE_SECONDS:g} s, without a word; stopped)", flush=True)


def wait_for(job: subprocess.Popen[bytes]) -> int | None:
    """Return the code of a job that ends; None if it has not ended when our patience has."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if job.poll() is not None:
            return job.returncode
        time.sleep(0.1)
    return None


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
