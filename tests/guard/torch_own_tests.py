"""torch's own tests of torch.distributed, bare and under the guard: those that pass bare must pass watched.

    python -m tests.guard.torch_own_tests [--every N]

They come with torch itself. Those that need a GPU are skipped by torch. Several tests share a run of the guard; a
finding ends it, counts against the test that was running, and the rest are run in another. Ranks wait more than they
compute, so two runs go side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PROGRAM = Path(__file__).with_name("torch_own_program.py")
_TESTS_PER_RUN = 20  # each test is a job of its own, whose rings stay in shared memory until the run ends
_NUM_RUNS = 2  # side by side
_TEST_SECONDS = 120.0
_ENDED_BY_GUARD, _NO_END = "ended by the guard", "did not end"


def _run(tests: list[str], folder: Path, *, watched: bool) -> dict[str, str]:
    """Run tests one after the other; return how each one ended."""
    guard = [sys.executable, "-m", "paceline", "run", "--notice", "1000", "--"] if watched else []
    ended: dict[str, str] = {}
    while len(ended) < len(tests):
        left = [test for test in tests if test not in ended][:_TESTS_PER_RUN]
        results = folder / f"{'watched' if watched else 'bare'}.{len(ended)}"
        results.touch()
        told, why = _run_some([*guard, sys.executable, str(_PROGRAM), str(results), *left], folder)
        lines = [json.loads(line) for line in results.read_text().splitlines()]
        ended |= {line["test"]: line["ended"] for line in lines}
        if len(lines) < len(left):
            ended[left[len(lines)]] = why
            print(f"{left[len(lines)]}: {why}\n{told[-2000:]}", flush=True)
    return ended


def _run_some(command: list[str], folder: Path) -> tuple[str, str]:
    """Run a command to its end; return what it printed, and why it may have stopped before the last test."""
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, "TMPDIR": str(folder)}, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = process.wait(_TEST_SECONDS * _TESTS_PER_RUN / 4)
            why = _ENDED_BY_GUARD if code == 90 else f"ended everything with exit code {code}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 15)
            process.wait()
            why = _NO_END
        out.seek(0)
        return out.read(), why


def _compare(tests: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Run tests bare, and those that pass watched; return how each one ended, bare and watched."""
    # torch's tests meet in files of the folder for temporary files
    with tempfile.TemporaryDirectory(prefix="pl", ignore_cleanup_errors=True) as folder:
        bare = _run(list(tests), Path(folder), watched=False)
        passing = [test for test, ended in bare.items() if ended == "passed"]
        return bare, _run(passing, Path(folder), watched=True)


def main() -> int:
    """Compare; return 1 if a test that passes bare does not pass watched."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run only every N-th test")
    parser.add_argument("tests", nargs="*", help="run only these")
    options = parser.parse_args()
    listed = subprocess.run([sys.executable, str(_PROGRAM)], capture_output=True, text=True, check=True).stdout.split()
    tests = options.tests or listed[:: options.every]
    bare: dict[str, str] = {}
    watched: dict[str, str] = {}
    with ThreadPoolExecutor(_NUM_RUNS) as runs:
        for bare_ends, watched_ends in runs.map(_compare, [tests[part::_NUM_RUNS] for part in range(_NUM_RUNS)]):
            bare |= bare_ends
            watched |= watched_ends
    passing = [test for test, ended in bare.items() if ended == "passed"]
    broken = [test for test in passing if watched[test] != "passed"]
    print(
        f"{len(tests)} of {len(listed)} tests: {len(passing)} pass bare, "
        f"{sum(ended == 'skipped' for ended in bare.values())} are skipped; {len(passing) - len(broken)} pass watched"
    )
    for test in broken:
        print(f"  {test}: {watched[test]}")
    return 1 if broken or not passing else 0


if __name__ == "__main__":
    sys.exit(main())
