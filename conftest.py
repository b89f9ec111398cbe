"""What holds for every test and doctest: nothing that it started may be left when it ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from hypothesis import settings

# Examples are the same in every run, and a slow machine is not an error.
settings.register_profile("paceline", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("paceline")

# importing these for doctests would initialise MPI in this process, or put the guard's hooks into it
collect_ignore = ["src/paceline/comm/mpi.py", "src/paceline/guard/boot/sitecustomize.py", "tests/guard/programs"]

_GRACE_SECONDS = 5.0  # a process that was told to end needs a moment
_SHARED_MEMORY = Path("/dev/shm")


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
    uid = os.getuid()
    files = {f"shared memory {path}" for path in _SHARED_MEMORY.glob("*") if _owner(path) == uid}
    return _processes() | threads | files


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except FileNotFoundError:
        return None


@pytest.fixture(autouse=True, scope="module")
def no_job_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Look at the end of a module where jobs run ahead of their tests."""
    if _runs_ahead(request):
        with _nothing_left():
            yield
    else:
        yield


@pytest.fixture(autouse=True)
def nothing_is_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process, a thread or a shared-memory file."""
    if _runs_ahead(request):
        yield
    else:
        with _nothing_left():
            yield


def _runs_ahead(request: pytest.FixtureRequest) -> bool:
    return hasattr(request.module, "ahead") if request.scope == "module" else "ahead" in request.fixturenames


@contextmanager
def _nothing_left() -> Iterator[None]:
    before = _left_over()
    yield
    deadline = time.monotonic() + _GRACE_SECONDS
    while (left := _left_over() - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not left, f"the test left behind: {sorted(left)}"
