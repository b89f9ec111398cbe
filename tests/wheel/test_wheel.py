"""The wheel works in an empty environment without a compiler; where there is none, a build fetches one.

`make wheel` has put wheel and sdist into dist/. Packages come from the package index; torch, which is large, is
borrowed from the environment of these tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import torch

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
NOT_BORROWED = ("paceline", "_editable_impl_paceline", "numpy", "rich", "pip", "setuptools", "__")
MOST_MEGABYTES = 80  # of what wheels contain; the .pyc files that Python adds to it, most of them numpy's, take 24

BALANCED_LOADER = """
import sys
from paceline import Loader, run_ranks

LENGTHS = [(7 * index) % 41 + 1 for index in range(200)]

class Words:
    def __len__(self):
        return len(LENGTHS)
    def __getitem__(self, index):
        return {"index": index, "length": LENGTHS[index]}

def job(comm):
    loader = Loader(Words(), batch_size=10, cost=lambda batch: batch["length"], comm=comm)
    return [(int(batch.real("length").sum()), batch.real("index").tolist()) for batch in loader]

if __name__ == "__main__":
    ranks = [outcome.value for outcome in run_ranks(job, 2, carrier="torch", deadline=100)]
    assert sorted(index for steps in ranks for _, indices in steps for index in indices) == list(range(200))
    assert all(abs(one - other) <= 1 for (one, _), (other, _) in zip(*ranks)), ranks
    assert "numba" not in sys.modules
    print("balanced")
"""

BARRIERS = """
import torch.distributed as dist
dist.init_process_group("gloo")
for step in range(3 + dist.get_rank()):
    dist.barrier()
"""


def file_in_dist(ending: str) -> Path:
    (file,) = DIST.glob(f"paceline-*{ending}")
    return file


class Environment:
    """A virtual environment, and commands in it that find nothing else."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True, symlinks=True)
        self.folder = folder
        # neither the variables of these tests nor a compiler
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CC"))}
        self.variables["PATH"] = str(folder / "bin")
        (self.packages,) = folder.glob("lib/python3.*/site-packages")

    def run(self, *command: str | Path, expected: int = 0) -> str:
        """Run a command of the environment, and return what it prints."""
        done = subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]], env=self.variables, cwd=self.folder, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=550,
        )  # fmt: skip
        assert done.returncode == expected, done.stdout
        return done.stdout

    def install(self, *arguments: str | Path) -> str:
        return self.run("python", "-m", "pip", "install", "--verbose", *arguments)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and what it depends on."""
    environment = Environment(tmp_path_factory.mktemp("wheel") / "env")
    environment.install("--only-binary", ":all:", file_in_dist(".whl"))
    return environment


@pytest.fixture(scope="module")
def with_torch(installed: Environment) -> Environment:
    """The same, with torch and what torch needs within reach."""
    shelf = installed.folder / "borrowed"
    shelf.mkdir()
    for package in Path(torch.__file__).parents[1].iterdir():
        if not package.name.startswith(NOT_BORROWED):
            (shelf / package.name).symlink_to(package)
    (installed.packages / "borrowed.pth").write_text(str(shelf))
    return installed


def test_the_wheel_is_for_all_pythons_from_3_11_on() -> None:
    assert "-cp311-abi3-linux_" in file_in_dist(".whl").name
    with zipfile.ZipFile(file_in_dist(".whl")) as wheel:
        names = wheel.namelist()
    assert "paceline/compiled/extension.abi3.so" in names
    assert [name for name in names if name.endswith((".c", ".h"))] == []


def test_the_sdist_has_the_sources() -> None:
    with tarfile.open(file_in_dist(".tar.gz")) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "src/paceline/compiled").glob("*.[ch]")}
    assert sources | {"build_extension.py", "pyproject.toml", "README.md", "LICENSE"} <= names
    assert not any(name.endswith(".so") for name in names)


def test_it_is_small_and_needs_no_compiler(installed: Environment) -> None:
    assert all(shutil.which(name, path=installed.variables["PATH"]) is None for name in ("cc", "gcc", "clang"))
    top = [path for path in installed.packages.iterdir() if not path.name.startswith(("pip", "setuptools"))]
    files = [path for folder in top for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    assert megabytes < MOST_MEGABYTES, f"{megabytes:.0f} MB"
    assert not (installed.packages / "numba").exists()


def test_the_plan_is_told(installed: Environment) -> None:
    told = installed.run("paceline", "plan", "--samples", "100", "--ranks", "7", "--batch", "3")
    assert "pad         5   100        0       5         0  3 on ranks 0-1; 2 on ranks 2-6" in told


def test_costs_are_dealt_evenly(installed: Environment) -> None:
    code = "from paceline import partition; print(partition([9, 1, 7, 3, 5, 5, 2, 8], 2).loads.tolist())"
    assert installed.run("python", "-c", code) == "[20, 20]\n"


def test_a_job_is_watched(with_torch: Environment) -> None:
    script = with_torch.folder / "barriers.py"
    script.write_text(BARRIERS)
    told = with_torch.run("paceline", "run", "-n", "2", script, expected=90)
    assert "uneven-steps" in told


def test_a_balanced_loader_runs(with_torch: Environment) -> None:
    script = with_torch.folder / "balanced_loader.py"
    script.write_text(BALANCED_LOADER)
    assert with_torch.run("python", script).endswith("balanced\n")


def test_without_a_compiler_the_build_fetches_one(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    told = environment.install("--no-deps", file_in_dist(".tar.gz"))
    assert "ziglang cc" in told
    environment.install("numpy")
    code = "from paceline import Plan; print(Plan(10**6, world_size=2, batch_size=2, seed=1).rows(1, 0, 7, 9).tolist())"
    expected = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert environment.run("python", "-c", code) == expected


def test_with_a_compiler_nothing_is_fetched(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "env")
    environment.variables["PATH"] = os.environ["PATH"]
    told = environment.install("--no-deps", file_in_dist(".tar.gz"))
    assert "-DPy_LIMITED_API" in told
    assert "ziglang" not in told
