"""What holds for every test and doctest: nothing that it started may be left when it ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec

import psutil  # type: ignore[import-untyped]
import pytest
from hypothesis import settings
from tests.helpers.shared_memory_files import files_left, files_now, mark_own_processes

# Examples are the same in every run, and a slow machine is not an error.
settings.register_profile("paceline", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("paceline")

# Unbuffered, Python writes the words of a line one by one, and ranks that share a pipe mix them.
os.environ.pop("PYTHONUNBUFFERED", None)

mark_own_processes()

# importing these for doctests would initialise MPI in this process, or put the guard's hooks into it
collect_ignore = [
    "src/paceline/comm/mpi_comm.py",
    "src/paceline/frameworks/lightning.py",  # Lightning takes seconds, and warns
    "src/paceline/guard/boot",
    "src/paceline/lab/cases",
    "tests/chaos/jobs",
    "tests/guard/programs",
    "tests/guard/torch_own_program.py",  # torch's own tests set variables of a job when they are imported
]

# each needs a package that only some users have; the tests of these run where it is installed
_OF_PACKAGES = {
    "docs/fenced_examples.py": "griffe",
    "docs/site_hooks.py": "mkdocs",
    "src/paceline/report/metrics/opentelemetry_exporter.py": "opentelemetry",
    "src/paceline/report/metrics/prometheus_exporter.py": "prometheus_client",
    "src/paceline/report/metrics/tensorboard_exporter.py": "tensorboard",
    "src/paceline/report/metrics/wandb_exporter.py": "wandb",
}
collect_ignore += [path for path, package in _OF_PACKAGES.items() if find_spec(package) is None]

_GRACE_SECONDS = 5.0  # a process that was told to end needs a moment
_FILES_BEFORE = pytest.StashKey[set[str]]()


def _processes() -> dict[str, str]:
    """Return what tells a process from all others, and how it is named: a shell may become another command."""
    children = psutil.Process().children(recursive=True)
    found = {}
    for child in children:
        try:
            command = " ".join(child.cmdline())
            if child.status() != psutil.STATUS_ZOMBIE and "multiprocessing.resource_tracker" not in command:
                found[f"{child.pid} {child.create_time()}"] = f"process {child.pid}: {command}"
        except psutil.NoSuchProcess:
            continue  # it has ended in the meantime, as it should
    return found


def _running() -> dict[str, str]:
    return _processes() | {thread.name: f"thread {thread.name}" for thread in threading.enumerate()}


def _left_over(running: dict[str, str], files: set[str]) -> set[str]:
    # where tests run side by side, files of the others come and go: then they are looked at in the end
    is_alone = "PYTEST_XDIST_WORKER" not in os.environ
    new = {text for known, text in _running().items() if known not in running}
    return new | ({f"shared memory {name}" for name in files_left(files)} if is_alone else set())


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note which shared-memory files are there before all tests."""
    session.config.stash[_FILES_BEFORE] = files_now()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the whole run if it leaves a shared-memory file."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    deadline = time.monotonic() + _GRACE_SECONDS
    while (left := files_left(session.config.stash[_FILES_BEFORE])) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        print(f"\nthe tests left behind: {sorted(left)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a test that leaves a process, a thread or a shared-memory file."""
    running, files = _running(), files_now()
    yield
    deadline = time.monotonic() + _GRACE_SECONDS
    while (left := _left_over(running, files)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, f"the test left behind: {sorted(left)}"
