"""Runs the job of the next test while that of this one runs: jobs wait for ranks more than they compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

_AT_A_TIME = 2

Job = Callable[[Any, Path], Any]


class Ahead:
    """The jobs of one module's tests, two at a time, in the order of the tests that were selected."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._pool = ThreadPoolExecutor(_AT_A_TIME)
        self._begun: dict[str, Future[Any]] = {}

    def result(self, test: Any, job: Job, parameter: str) -> Any:
        """Return what the job of a test returns; it gets the value of the test's parameter and a folder."""
        same = [item for item in test.session.items if getattr(item, "function", None) is test.function]
        place = same.index(test)
        for item in same[place : place + _AT_A_TIME]:
            if item.nodeid not in self._begun:
                folder = self._folders.mktemp("job")
                self._begun[item.nodeid] = self._pool.submit(job, item.callspec.params[parameter], folder)
        return self._begun[test.nodeid].result()

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def ahead(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ahead]:
    """Jobs of this module's tests, begun ahead of them."""
    jobs = Ahead(tmp_path_factory)
    yield jobs
    jobs.close()
