"""The check that every test ends with: a file in shared memory counts if it was left, and not if another job has it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.shared_memory_files import MEMORY, files_left, files_now

# keeps the file open or mapped, or names itself as the judge of a folder; the variable tells whose process it is
HOLDS = """
import mmap, os, sys
how, path = sys.argv[1:]
if how == "judge":
    open(os.path.join(path, "judge"), "w").write(f"{os.getpid()} 1")
else:
    file = open(path, "r+b")
    if how == "mapped":
        memory = mmap.mmap(file.fileno(), 0)
        file.close()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(request: pytest.FixtureRequest) -> Iterator[tuple[str, subprocess.Popen[str], set[str]]]:
    how, is_ours = request.param
    before = files_now()
    with tempfile.TemporaryDirectory(prefix="left", dir=MEMORY) as folder:
        path = Path(folder)
        if how != "judge":
            path = path / "memory"
            path.write_bytes(bytes(4096))
        environment = {key: value for key, value in os.environ.items() if is_ours or key != "PACELINE_TEST_RUN"}
        with subprocess.Popen(
            [sys.executable, "-c", HOLDS, how, str(path)], env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield Path(folder).name, process, before
            process.kill()


@pytest.mark.parametrize("holder", [("open", False), ("mapped", False), ("judge", False)], indirect=True)
def test_a_file_of_another_job_is_not_left_until_that_job_has_ended(
    holder: tuple[str, subprocess.Popen[str], set[str]],
) -> None:
    name, process, before = holder
    assert name not in files_left(before)
    process.kill()
    process.wait()
    assert name in files_left(before)


@pytest.mark.parametrize("holder", [("open", True), ("mapped", True), ("judge", True)], indirect=True)
def test_a_file_that_a_process_of_the_tests_still_has_is_left(
    holder: tuple[str, subprocess.Popen[str], set[str]],
) -> None:
    name, _, before = holder
    assert name in files_left(before)
    assert name not in files_left(before | {name})
