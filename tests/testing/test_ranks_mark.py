"""The mark `ranks`: a test of a user runs on real ranks, and its failure is what the guard has found."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(300)

_DEADLINE = 280.0

TORCH = """
import os
import pytest
import torch
import torch.distributed as dist
"""
MPI = """
import pytest
from mpi4py import MPI
comm = MPI.COMM_WORLD
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder of a user in which tests can be run, in a process of their own."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:randomly")
    return pytester


def run(session: pytest.Pytester, text: str, *arguments: str) -> pytest.RunResult:
    session.makepyfile(test_job=text)
    return session.runpytest_subprocess("-rA", *arguments, timeout=_DEADLINE)


def test_a_test_runs_on_all_ranks_with_its_fixtures(session: pytest.Pytester) -> None:
    result = run(
        session,
        TORCH
        + """
@pytest.fixture
def offset():
    print("fixture of", os.environ["RANK"])
    return 10

@pytest.mark.parametrize("factor", [3])
@pytest.mark.ranks(2)
def test_sum(ranks_comm, offset, factor, tmp_path):
    (tmp_path / "own").write_text("")
    value = torch.tensor([float(factor * (ranks_comm.rank + offset))])
    dist.all_reduce(value)
    assert value.item() == factor * 21
    assert ranks_comm.world_size == 2
""",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*stdout of rank 0 setup*", "fixture of 0", "*stdout of rank 1 setup*"])


def test_a_hang_fails_with_the_finding(session: pytest.Pytester) -> None:
    result = run(
        session,
        MPI
        + """
@pytest.mark.ranks(3)
def test_steps():
    for step in range(4 if comm.rank == 2 else 3):
        comm.Barrier()
    comm.allreduce(1)
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*paceline: rank 2 *",
            "*ranks 0-1 * test_job.py:9*",
            "*rank 2 * test_job.py:8*",
            "*cause: uneven-steps:*",
            "*records: paceline-out/* (paceline report makes a page of them)",
        ]
    )


def test_a_rank_that_fails_is_shown_with_its_assertion(session: pytest.Pytester) -> None:
    result = run(
        session,
        MPI
        + """
@pytest.mark.ranks(2)
def test_alone():
    print("printed by", comm.rank)
    assert comm.rank != 1

@pytest.mark.ranks(2)
def test_the_other_waits():
    assert comm.rank != 1
    comm.Barrier()
""",
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["rank 1:", "*def test_alone():*", ">       assert comm.rank != 1", "*stdout of rank 1 call*", "printed by 1"]
    )
    result.stdout.fnmatch_lines(
        ["paceline: rank 1 raised at test_job.py:12*", "rank 1:", ">       assert comm.rank != 1"]
    )


def test_a_rank_that_is_killed_is_named(session: pytest.Pytester) -> None:
    result = run(
        session,
        TORCH
        + """
@pytest.mark.ranks(2)
def test_killed(ranks_comm):
    if ranks_comm.rank == 1:
        os.kill(os.getpid(), 9)
    dist.barrier()
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*paceline: *rank 1*killed*"])


def test_skips_and_expected_failures_stay_what_they_are(session: pytest.Pytester) -> None:
    result = run(
        session,
        MPI
        + """
@pytest.mark.skipif(True, reason="never")
@pytest.mark.ranks(2)
def test_not_started():
    raise AssertionError

@pytest.mark.ranks(2)
def test_all_skip():
    pytest.skip("by all")

@pytest.mark.ranks(2)
def test_one_skips():
    if comm.rank == 1:
        pytest.skip("by one")

@pytest.mark.xfail(raises=ZeroDivisionError)
@pytest.mark.ranks(2)
def test_expected():
    1 / 0

@pytest.mark.xfail(raises=ZeroDivisionError)
@pytest.mark.ranks(2)
def test_another_error():
    raise KeyError

@pytest.mark.xfail(strict=True)
@pytest.mark.ranks(2)
def test_unexpected():
    pass
""",
    )
    result.assert_outcomes(skipped=2, passed=1, xfailed=1, failed=2)
    result.stdout.fnmatch_lines(["*[[]XPASS(strict)[]]*"])


def test_a_wrong_mark_is_told(session: pytest.Pytester) -> None:
    result = run(
        session,
        """
import pytest

@pytest.mark.ranks(0)
def test_none(): ...

@pytest.mark.ranks(2, carrier="pigeon")
def test_carrier(): ...

@pytest.mark.ranks()
def test_number(): ...

def test_fixture(ranks_comm): ...
""",
    )
    result.assert_outcomes(failed=3, errors=1)
    result.stdout.fnmatch_lines(
        [
            "*the fixture ranks_comm needs the mark*",
            "@pytest.mark.ranks: n must be *got 0",
            "@pytest.mark.ranks: carrier must be one of torch, mpi, got 'pigeon'",
            "@pytest.mark.ranks: * missing 1 required positional argument: 'n'",
        ]
    )


def test_options_and_plugins_of_the_user_reach_the_ranks(session: pytest.Pytester) -> None:
    session.makeconftest(
        """
import pytest

def pytest_addoption(parser):
    parser.addoption("--size", type=int, default=1)

@pytest.fixture
def size(request):
    return request.config.getoption("size")
"""
    )
    text = MPI + "\n@pytest.mark.ranks(2)\ndef test_size(size):\n    assert size == 5\n"
    result = run(session, text, "--size", "5", "-n", "1", "--junitxml=result.xml", "-k", "size")
    result.assert_outcomes(passed=1)
    assert 'tests="1"' in (session.path / "result.xml").read_text()


def test_a_test_that_takes_too_long_leaves_no_rank_behind(session: pytest.Pytester) -> None:
    text = MPI + "\nimport time\n@pytest.mark.timeout(4)\n@pytest.mark.ranks(2)\ndef test_long():\n    time.sleep(60)\n"
    result = run(session, text, "-p", "no:xdist")
    result.assert_outcomes(failed=1)  # that nothing is left, the check after every test of ours says


def test_without_the_mark_neither_torch_nor_the_guard_is_imported(session: pytest.Pytester) -> None:
    result = run(
        session,
        """
import sys

def test_plain():
    assert "paceline.testing.pytest_hooks" in sys.modules
    assert not {"torch", "numpy", "rich", "jinja2", "mpi4py"} & set(sys.modules)
    assert not [name for name in sys.modules if name.startswith(("paceline.guard", "paceline.launch"))]
""",
    )
    result.assert_outcomes(passed=1)


def test_the_plugin_is_an_entry_point() -> None:
    (found,) = entry_points(group="pytest11", name="paceline")
    assert found.value == "paceline.testing.pytest_hooks"
