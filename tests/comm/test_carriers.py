"""One suite for all carriers: the same calls give the same results, and failures reach every rank."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.helpers import carrier_conformance, misbehaving_ranks

from paceline import connect, run_ranks
from paceline.comm.alone_comm import AloneComm
from paceline.launch.leftovers import remove_leftovers, shared_files_now

CARRIERS = ["threads", "torch", "mpi"]


@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
@pytest.mark.parametrize("carrier", CARRIERS)
def test_carriers_conform(carrier: str, world_size: int) -> None:
    outcomes = run_ranks(carrier_conformance.conform, world_size, carrier=carrier, deadline=100)
    assert [outcome.traceback for outcome in outcomes if not outcome.ok] == []
    assert [wrong for outcome in outcomes for wrong in outcome.value] == []


def test_a_group_of_one_conforms() -> None:
    assert carrier_conformance.conform(AloneComm()) == []


def test_carriers_refuse_in_the_same_words() -> None:
    expected = carrier_conformance.refuse(AloneComm())
    assert "nothing" not in expected
    assert "root must be a rank from 0 to 0, got 1" in expected[0]
    for carrier in CARRIERS:
        assert run_ranks(carrier_conformance.refuse, 1, carrier=carrier)[0].value == expected


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_failure_in_the_middle_reaches_all_ranks(carrier: str) -> None:
    outcomes = run_ranks(misbehaving_ranks.all_reduce_until_told, 3, (2,), carrier=carrier, grace=1)
    assert [outcome.ok for outcome in outcomes] == [False, False, False]
    assert "out of line" in str(outcomes[2].error)
    assert not any(outcome.timed_out for outcome in outcomes)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_an_abort_ends_all_ranks(carrier: str) -> None:
    deadline = 5 if carrier == "threads" else 60
    outcomes = run_ranks(misbehaving_ranks.abort_on, 3, (1,), carrier=carrier, deadline=deadline, grace=1)
    assert not outcomes[0].ok
    assert not outcomes[2].ok
    assert not outcomes[0].timed_out


def test_threads_that_call_differently_are_named() -> None:
    def differ(comm: object) -> None:
        comm.barrier() if comm.rank else comm.duplicate()  # type: ignore[attr-defined]

    outcomes = run_ranks(differ, 2, carrier="threads")
    assert all("ranks called differently at call 0" in str(outcome.error) for outcome in outcomes)


def test_connect_finds_nothing_where_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connect("alone").carrier == "alone"
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="nothing connects the ranks yet"):
        connect()
    with pytest.raises(ValueError, match="call init_process_group first"):
        connect("torch")
    with pytest.raises(ValueError, match="carrier must be one of"):
        connect("pigeon")


@pytest.mark.parametrize("carrier", ["torch", "mpi"])
def test_connect_finds_the_carrier_of_the_job(carrier: str) -> None:
    for outcome in run_ranks(carrier_conformance.connect_again, 2, carrier=carrier):
        assert outcome.value == (carrier, outcome.rank, 2)


def test_an_mpi_that_knows_of_fewer_ranks_than_were_started_is_refused() -> None:
    code = "from mpi4py import MPI; from paceline import connect; connect()"
    before = shared_files_now()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "OMPI"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environ | {"RANK": "1", "WORLD_SIZE": "4"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    remove_leftovers(before)  # Open MPI leaves one where there is no launcher
    assert "MPI has 1 ranks, but torchrun has started 4" in done.stderr


def test_mpi_is_believed_where_the_launcher_tells_the_rank_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # set when MPI runs already: MPICH would look for the launcher
    code = "from mpi4py import MPI; import os; os.environ['PMIX_RANK'] = '0'; from paceline import connect; "
    before = shared_files_now()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PMI", "OMPI"))}
    done = subprocess.run(
        [sys.executable, "-c", f"{code} print(connect().carrier, connect('mpi').world_size)"], env=environ,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    remove_leftovers(before)
    assert (done.stdout, done.stderr) == ("mpi 1\n", "")
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    monkeypatch.setenv("PMIX_RANK", "0")
    with pytest.raises(ValueError, match="PMIX_RANK=0 says which rank this is, but nothing says how many there are"):
        connect()


def test_ranks_are_their_own_job_also_within_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    for carrier in ("torch", "mpi"):
        outcomes = run_ranks(carrier_conformance.say_rank, 2, (10,), carrier=carrier)
        assert [outcome.error for outcome in outcomes] == [None, None]
        assert [outcome.value for outcome in outcomes] == [(0, 2, carrier), (10, 2, carrier)]
