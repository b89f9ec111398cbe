"""The plugin that pytest loads in every session: it knows the mark `ranks`, and nothing else happens without it.

It imports pytest alone. What starts ranks is imported when the first marked test runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from paceline.testing.ranks_mark import MARK, OF_SESSION

if TYPE_CHECKING:
    from paceline.comm import Comm

_TEXT = (
    f"{MARK}(n, carrier=None, timeout=None): run the test on n ranks under Paceline's guard; carrier is 'torch' or "
    "'mpi' (default: 'mpi' if the test's file names mpi4py); timeout is in seconds, and ends a rank that waits longer"
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known, so that --strict-markers accepts it."""
    config.addinivalue_line("markers", _TEXT)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let the ranks run a marked test, fixtures included, in place of this process."""
    mark = item.get_closest_marker(MARK)
    if mark is None or OF_SESSION in os.environ:
        return

    def start_ranks() -> None:
        from paceline.testing.ranks_test import run_on_ranks

        run_on_ranks(item, mark)

    # pytest calls these two by name; its own versions would set up fixtures and call the function here
    item.setup = lambda: None  # type: ignore[method-assign]
    item.runtest = start_ranks  # type: ignore[method-assign]


@pytest.fixture
def ranks_comm() -> Iterator[Comm]:
    """Connect the ranks of a test with the mark `ranks`: over torch.distributed (gloo), or over MPI."""
    if OF_SESSION not in os.environ:
        pytest.fail(f"the fixture ranks_comm needs the mark: @pytest.mark.{MARK}(2)", pytrace=False)
    from paceline.testing.ranks_session import connected_ranks

    with connected_ranks() as comm:
        yield comm
