"""Importing costs nothing that is not used, and starts nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import paceline

HEAVY = ("torch", "mpi4py", "rich")
NEED_TORCH = {"Batch", "Collate", "Jagged", "Loader", "Packed", "in_step", "mean_loss", "pack_step", "packed"}
LIGHT = sorted(set(paceline.__all__) - NEED_TORCH)


def run(code: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    value: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return value


LOOK = """
import json, sys, threading
heavy = [name for name in {heavy!r} if name in sys.modules]
print(json.dumps(dict(heavy=heavy, numpy="numpy" in sys.modules, threads=threading.active_count())))
"""


@pytest.mark.parametrize(
    "code",
    [
        "import paceline",
        f"import paceline\nfor name in {LIGHT}: getattr(paceline, name)",
        "from paceline.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from paceline.cli import main\nmain(['plan', '--samples', '9', '--ranks', '2', '--batch', '2'])",
    ],
)
def test_no_framework_is_loaded_and_no_thread_is_started(code: str) -> None:
    found = run(code + LOOK.format(heavy=HEAVY))
    assert found["heavy"] == []
    assert found["threads"] == 1


def test_what_runs_in_a_watched_rank_does_without_the_compiled_part() -> None:
    """The Python of a watched job need not be the one that it was compiled for."""
    code = """
import json, pkgutil, sys
sys.modules["paceline.compiled.extension"] = None  # importing it fails
import paceline.guard.rank, paceline.guard.shared_memory, paceline.process
rooms = [paceline.guard.rank, paceline.guard.shared_memory, paceline.process]
names = [found.name for room in rooms for found in pkgutil.walk_packages(room.__path__, room.__name__ + ".")]
for name in names:
    if ".torch" not in name and ".mpi" not in name:  # those import what they hook
        __import__(name)
compiled = [name for name in sys.modules if name.startswith("paceline.compiled.") and sys.modules[name] is not None]
from paceline.guard.rank.compiled_recorder import RecorderInUse
print(json.dumps(dict(number=len(names), compiled=compiled, recorder=RecorderInUse.__name__)))
"""
    found = run(code)
    assert (found["compiled"], found["recorder"]) == ([], "Recorder")
    assert isinstance(found["number"], int)
    assert found["number"] > 20


def test_help_and_import_do_not_even_load_numpy() -> None:
    code = "import paceline, paceline.launch.mpiexec\nfrom paceline.cli import main\n"
    code += "try: main(['--help'])\nexcept SystemExit: pass"
    assert run(code + LOOK.format(heavy=HEAVY))["numpy"] is False


def test_counting_the_steps_of_a_benchmark_needs_no_numpy() -> None:
    code = """
from paceline.bench.workload_choice import choose_workload
from paceline.bench.workload.split_plans import plan_summaries
assert plan_summaries(choose_workload("resnet50", [], scale=0.001).workload, 2)["train"].num_steps > 0
"""
    assert run(code + LOOK.format(heavy=HEAVY))["numpy"] is False


def test_little_is_loaded_beyond_numpy() -> None:
    """The time it takes is measured by benchmarks/imports.py; what it loads is the same on every machine."""
    code = f"""
import json, sys
import numpy
before = set(sys.modules)
import paceline
for name in {LIGHT}: getattr(paceline, name)
print(json.dumps(dict(others=sorted(name for name in set(sys.modules) - before if not name.startswith("paceline")))))
"""
    others = run(code)["others"]
    assert isinstance(others, list)
    assert len(others) <= 70, others


@pytest.mark.timeout(360)  # it imports torch, which takes minutes on a machine that is busy enough
def test_a_loader_does_not_load_other_plans_or_the_check() -> None:
    code = """
import json, sys
from paceline import Batch, Loader, partition
from paceline.loader import Balancer
rooms = ("paceline.loader.check", "paceline.plan.lengths", "paceline.plan.mixture", "paceline.plan.packs")
found = [name for name in sys.modules if name.startswith(rooms)]
print(json.dumps(dict(found=found, loaded="paceline.loader.epochs.loader" in sys.modules)))
"""
    assert run(code) == {"found": [], "loaded": True}


def test_layers_are_there_without_being_imported() -> None:
    code = "import json, paceline; print(json.dumps(dict(name=paceline.loader.gather_batches.__name__)))"
    assert run(code)["name"] == "gather_batches"


def test_every_public_name_is_there() -> None:
    assert set(paceline.__all__) <= set(dir(paceline))
    for name in paceline.__all__:
        assert getattr(paceline, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = paceline.nothing
