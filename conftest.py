"""What holds for every test and doctest: nothing that it started may be left when it ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from hypothesis import settings

# Examples are the same in every run, and a slow machine is not an error.
settings.register_profile("paceline", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("paceline")

# Unbuffered, Python writes the words of a line one by one, and ranks that share a pipe mix them.
os.environ.pop("PYTHONUNBUFFERED", None)

# importing these for doctests would initialise MPI in this process, or put the guard's hooks into it
collect_ignore = [
    "src/paceline/comm/mpi_comm.py",
    "src/paceline/guard/boot",
    "src/paceline/lab/cases",
    "tests/guard/programs",
    "tests/guard/torch_own_program.py",  # torch's own tests set variables of a job when they are imported
]

_GRACE_SECONDS = 5.0  # a process that was told to end needs a moment
_SHARED_MEMORY = Path("/dev/shm")
_FILES_BEFORE = pytest.StashKey[set[str]]()


def _processes() -> set[str]:
    children = psutil.Process().children(recursive=True)
    texts = set()
    for child in children:
        try:
            command = " ".join(child.cmdline())
            if child.status() != psutil.STATUS_ZOMBIE and "multiprocessing.resource_tracker" not in command:
                texts.add(f"process {child.pid}: {command}")
        except psutil.NoSuchProcess:
            continue  # it has ended in the meantime, as it should
    return texts


def _left_over() -> set[str]:
    threads = {f"thread {thread.name}" for thread in threading.enumerate()}
    # where tests run side by side, files of the others come and go: then they are looked at in the end
    return _processes() | threads | (set() if "PYTEST_XDIST_WORKER" in os.environ else _files())


def _files() -> set[str]:
    uid = os.getuid()
    return {f"shared memory {path}" for path in _SHARED_MEMORY.glob("*") if _owner(path) == uid}


def pytest_sessionstart(session: pytest.Session) -> None:
    """Note which shared-memory files are there before all tests."""
    session.config.stash[_FILES_BEFORE] = _files()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the whole run if it leaves a shared-memory file."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    deadline = time.monotonic() + _GRACE_SECONDS
    while (left := _files() - session.config.stash[_FILES_BEFORE]) and time.monotonic() < deadline:
        time.sleep(0.02)
    if left:
        print(f"\nthe tests left behind: {sorted(left)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except FileNotFoundError:
        return None


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail a test that leaves a process, a thread or a shared-memory file."""
    before = _left_over()
    yield
    deadline = time.monotonic() + _GRACE_SECONDS
    while (left := _left_over() - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, f"the test left behind: {sorted(left)}"
