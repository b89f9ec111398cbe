"""What every benchmark writes with its figures: machine, versions and command, so that they can be judged later."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write_record(name: str, figures: Any, *, packages: list[str], seed: int) -> None:
    """Write the figures and what they were measured on; print the path."""
    record = {
        "command": f"python {_script()} {' '.join(sys.argv[1:])}".strip(),
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"},
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
        "seed": seed,
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"\nwritten: benchmarks/results/{path.name}")


def commit() -> str:
    """Return the commit that is measured, marked if files have been changed since."""
    describe = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(describe, cwd=RESULTS.parent, check=True, capture_output=True, text=True).stdout.strip()


def kept_figures(name: str) -> Any:
    """Return the figures of the record that is kept; None if there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["figures"] if path.exists() else None


def _script() -> str:
    """Return the script that runs, as one would name it in the folder of the project."""
    return Path(sys.argv[0]).resolve().relative_to(RESULTS.parent.parent).as_posix()


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()
