"""Runs mpi4py's own test suite on one rank, as its `test/main.py` does, and writes down how each test ended.

Call it with the folder of results, mpi4py's folder of tests, and the arguments of `test/main.py`.
"""

from __future__ import annotations

import json
import os
import sys
import unittest
from pathlib import Path
from typing import Any


class _Result(unittest.TextTestResult):
    """Remembers the end of each test."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.ends: dict[str, list[str]] = {}

    def _note(self, test: unittest.TestCase, how: str) -> None:
        self.ends.setdefault(test.id(), []).append(how)

    def addSuccess(self, test: Any) -> None:  # noqa: N802 (unittest's name, as all below)
        self._note(test, "passed")
        super().addSuccess(test)

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._note(test, f"skipped: {reason}")
        super().addSkip(test, reason)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note(test, f"error: {err[0].__name__}")
        super().addError(test, err)

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        self._note(test, "failed")
        super().addFailure(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        self._note(subtest, "passed" if err is None else f"failed: {err[0].__name__}")
        super().addSubTest(test, subtest, err)


class _Runner(unittest.TextTestRunner):
    """Writes the ends of all tests to the file of this rank."""

    resultclass = _Result

    def run(self, test: Any) -> Any:
        result = super().run(test)
        from mpi4py import MPI

        assert isinstance(result, _Result)
        path = Path(sys.argv[1], f"{MPI.COMM_WORLD.Get_rank()}.json")
        path.write_text(json.dumps(result.ends, indent=1))
        return result


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.abspath(sys.argv[2]))
    import main  # type: ignore[import-not-found]

    main.main(module=None, argv=["main.py", *sys.argv[3:]], testRunner=_Runner)
