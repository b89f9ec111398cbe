"""Programs of ours do not run modules of the current folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from paceline.bench.workload_choice import choose_workload
from paceline.guard.run.watch_options import WatchOptions, run_command
from paceline.launch.local_ranks import local_command
from paceline.process.own_programs import own_code, own_module

_NAMES = ("socket", "json", "numpy", "argparse", "mpi4py", "paceline")


@pytest.mark.parametrize(
    "command",
    [
        run_command(["true"], WatchOptions()),
        local_command(1, "torch", ["true"]),
        [*own_module("paceline.cli.judge_process"), "--help"],
        choose_workload("unet3d").worker_command("--help"),
        own_code("import socket, json, argparse"),
    ],
    ids=["run", "ranks", "judge", "bench", "code"],
)
def test_a_module_of_the_current_folder_is_not_run(tmp_path: Path, command: list[str]) -> None:
    for name in _NAMES:
        (tmp_path / f"{name}.py").write_text("import os; os.write(2, b'RUN BY MISTAKE'); os._exit(77)")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "RUN BY MISTAKE" not in done.stderr
    assert done.returncode == 0, done.stderr
    bare = subprocess.run([sys.executable, "-c", "import socket"], cwd=tmp_path, capture_output=True, check=False)
    assert bare.returncode == 77  # so it would have been
