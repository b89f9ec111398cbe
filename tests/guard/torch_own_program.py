"""Runs tests of torch's own suite for torch.distributed on gloo, and appends how each one ended to a file.

It knows nothing of the guard, and is started with it and without it by torch_own_tests.py. Ranks are forked, so that
torch is imported once, with what DistributedDataParallel and optimizers import when the first one is made.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

os.environ |= {"BACKEND": "gloo", "WORLD_SIZE": "3", "OMP_NUM_THREADS": "1", "TEMP_DIR": tempfile.gettempdir()}

import torch
import torch._dynamo
from torch.testing._internal.distributed import distributed_test as suite

_Base: Any = suite.DistributedTest._DistTestBase
_Backend: Any = suite.TestDistBackend


class TorchOwnTests(_Backend, _Base):  # type: ignore[misc]
    """The tests, each on three ranks."""

    def setUp(self) -> None:
        """Start the ranks."""
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)


def names_of_tests() -> list[str]:
    """Return the names of all tests."""
    return list(unittest.TestLoader().getTestCaseNames(TorchOwnTests))


def run_test(name: str) -> str:
    """Run one test; return how it ended: passed, skipped or failed."""
    result = unittest.TextTestRunner(stream=io.StringIO()).run(TorchOwnTests(name))
    if result.skipped:
        return "skipped"
    return "passed" if result.wasSuccessful() else "failed"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(names_of_tests()))
    for test in sys.argv[2:]:
        ended = run_test(test)
        with Path(sys.argv[1]).open("a") as file:
            file.write(json.dumps({"test": test, "ended": ended}) + "\n")
