"""The launcher: every way in which a rank can end, on every carrier, with nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from tests.helpers import carrier_conformance, misbehaving_ranks

from paceline import PacelineError, run_ranks
from paceline.launch import RankError
from paceline.launch.mpiexec import find_mpiexec
from paceline.launch.rank_threads import Running

PROCESSES = ["torch", "mpi"]
CARRIERS = ["threads", *PROCESSES]


@pytest.fixture(autouse=True)
def nothing_in_the_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    tmp_path_factory.getbasetemp()  # pytest's own folder is elsewhere
    folder = Path(tempfile.mkdtemp(prefix="t"))  # Open MPI keeps sockets there, and their paths must be short
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    left = list(folder.iterdir())
    shutil.rmtree(folder)
    assert left == []


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("world_size", [1, 3])
def test_every_rank_returns_its_value(carrier: str, world_size: int) -> None:
    outcomes = run_ranks(carrier_conformance.say_rank, world_size, (10,), carrier=carrier)
    assert [outcome.value for outcome in outcomes] == [(10 * rank, world_size, carrier) for rank in range(world_size)]
    assert all(outcome.ok for outcome in outcomes)


@pytest.mark.parametrize("carrier", CARRIERS)
def test_an_exception_comes_with_its_traceback_and_reaches_all(carrier: str) -> None:
    outcomes = run_ranks(misbehaving_ranks.raise_on, 3, (1,), carrier=carrier, grace=1)
    assert isinstance(outcomes[1].error, KeyError)
    assert "no such sample on rank 1" in str(outcomes[1].error)
    assert "in raise_on" in str(outcomes[1].traceback)
    assert not any(outcome.ok for outcome in outcomes)
    assert not any(outcome.timed_out for outcome in outcomes)
    for outcome in (outcomes[0], outcomes[2]):
        assert isinstance(outcome.error, PacelineError)
        assert carrier == "torch" or "rank 1" in str(outcome.error), "gloo says only that a connection closed"


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_rank_that_does_not_end_is_asked_for_its_stacks(carrier: str) -> None:
    deadline = {"threads": 2, "mpi": 5, "torch": 8}[carrier]
    outcomes = run_ranks(misbehaving_ranks.sleep_on, 2, (1,), carrier=carrier, deadline=deadline)
    assert outcomes[1].timed_out
    assert "sleep_on" in str(outcomes[1].stacks)
    assert "was still running after" in str(outcomes[1].error)
    if carrier != "threads":
        assert outcomes[0].timed_out
        assert "barrier" in str(outcomes[0].stacks)


def test_a_thread_that_leaves_as_it_is_ended_leaves_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    unhandled: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda about: unhandled.append(about.exc_type))
    for _ in range(30):  # ranks 0 and 1 are told that the job is over and are ended at the same moment
        outcomes = run_ranks(misbehaving_ranks.spin_on, 3, (2,), carrier="threads", deadline=0.05)
        assert outcomes[2].timed_out
    assert unhandled == []


def test_a_thread_that_has_left_is_not_ended() -> None:
    running, has_left, may_go, came_to_its_end = Running(1), threading.Event(), threading.Event(), threading.Event()

    def leave() -> None:
        running.leave(0)
        has_left.set()
        may_go.wait(60)
        came_to_its_end.set()

    thread = threading.Thread(target=leave)
    thread.start()
    assert has_left.wait(60)
    running.end(0, thread)
    may_go.set()
    thread.join(60)
    assert came_to_its_end.is_set()


@pytest.mark.parametrize("carrier", PROCESSES)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_rank_that_is_killed_says_by_which_signal(carrier: str, number: int) -> None:
    outcomes = run_ranks(misbehaving_ranks.die_on, 3, (2, number), carrier=carrier, grace=1)
    assert (outcomes[2].signal, outcomes[2].exit_code) == (number, None)
    assert signal.Signals(number).name in str(outcomes[2].error)
    assert not outcomes[0].ok


@pytest.mark.parametrize("carrier", PROCESSES)
def test_exits_come_with_their_code_and_output(carrier: str) -> None:
    outcomes = run_ranks(misbehaving_ranks.exit_on, 2, (1, 3), carrier=carrier, grace=1)
    assert (outcomes[1].exit_code, outcomes[1].signal, outcomes[1].ok) == (3, None, False)
    assert isinstance(outcomes[1].error, SystemExit)
    assert outcomes[1].output == "rank 1 was here\n"


@pytest.mark.parametrize("carrier", PROCESSES)
def test_a_rank_that_vanishes_is_told(carrier: str) -> None:
    outcomes = run_ranks(misbehaving_ranks.vanish_on, 2, (0,), carrier=carrier, grace=1)
    assert outcomes[0].exit_code == 7
    assert "exited with code 7" in str(outcomes[0].error)


@pytest.mark.parametrize("carrier", PROCESSES)
def test_what_cannot_travel_is_told(carrier: str) -> None:
    outcome = run_ranks(misbehaving_ranks.return_lock, 1, carrier=carrier)[0]
    assert isinstance(outcome.error, RankError)
    assert "the value cannot travel" in str(outcome.error)
    outcome = run_ranks(misbehaving_ranks.raise_stubborn, 1, carrier=carrier)[0]
    assert "StubbornError: 1 and 2" in str(outcome.error)
    with pytest.raises(ValueError, match="defined at the top of a module"):
        run_ranks(lambda comm: 1, 2, carrier=carrier)


@pytest.mark.parametrize("carrier", PROCESSES)
def test_an_interrupted_call_ends_its_ranks(carrier: str) -> None:
    find_mpiexec()
    # what Python sets up by itself, but not where the tests were started in the background
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_ranks(misbehaving_ranks.interrupt_parent, 2, (os.getpid(),), carrier=carrier)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("carrier", PROCESSES)
def test_ranks_end_when_their_launcher_is_killed(carrier: str, tmp_path: Path) -> None:
    segment = f"ucx_shm_posix_of_{os.getpid()}_"
    segments = [Path("/dev/shm") / f"{segment}{rank}" for rank in range(2)]
    script = tmp_path / "launch.py"
    script.write_text(
        "from paceline import run_ranks\nfrom tests.helpers.misbehaving_ranks import sleep_on_a_segment\n"
        f"if __name__ == '__main__':\n    run_ranks(sleep_on_a_segment, 2, ({segment!r},), carrier={carrier!r})\n"
    )
    root = str(Path(__file__).parents[2])
    launcher = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": root, "TMPDIR": str(tempfile.gettempdir())},
        start_new_session=True,
    )
    end = time.monotonic() + 40
    while time.monotonic() < end and not all(path.exists() for path in segments):
        time.sleep(0.05)
    assert len(_ranks_of(tempfile.gettempdir())) >= 4, "two workers and two keepers"
    launcher.kill()
    launcher.wait()
    while time.monotonic() < end and _ranks_of(tempfile.gettempdir()):
        time.sleep(0.05)
    assert _ranks_of(tempfile.gettempdir()) == []
    while time.monotonic() < end and any(Path(tempfile.gettempdir()).iterdir()):
        time.sleep(0.05)
    assert [path for path in segments if path.exists()] == []


def _ranks_of(folder: str) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if "paceline.launch" in words and any(word.startswith(folder) for word in words):
            found.append(process.pid)
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"world_size": 0}, "world_size must be"),
        ({"world_size": 2, "carrier": "pigeon"}, "carrier must be one of threads, torch, mpi, got 'pigeon'"),
    ],
)
def test_wrong_input_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_ranks(carrier_conformance.say_rank, **arguments)  # type: ignore[arg-type]
