"""A rank's record says which of its threads are inside a call, which join another, and which run."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest
from tests.guard.recorded_calls import BARRIER, read

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator


def test_threads_have_a_place_each_until_they_end(recorder: Recorder, world: Communicator) -> None:
    recorder.begin_collective(world, BARRIER, depth=1)
    inside, leave = threading.Event(), threading.Event()

    def communicate() -> None:
        recorder.block(0)
        recorder.unblock(0)
        inside.set()
        leave.wait(30)

    thread = threading.Thread(target=communicate)
    thread.start()
    assert inside.wait(30)
    threads = read(recorder).threads()
    leave.set()
    thread.join()
    assert sorted(waiting is None for waiting in threads) == [False, True]
    assert len(read(recorder).threads()) == 1


class _Helper(threading.Thread):
    """A thread that is inside a call until it may leave."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder, self.inside, self.leave = recorder, threading.Event(), threading.Event()

    def run(self) -> None:
        self._recorder.block(0)
        self.inside.set()
        self.leave.wait(30)
        self._recorder.unblock(0)


@pytest.fixture
def inside_a_call(recorder: Recorder, world: Communicator) -> Iterator[_Helper]:
    """A thread inside a call, of a rank whose main thread has made one too and runs."""
    recorder.begin_collective(world, BARRIER, depth=1)
    recorder.unblock(0)
    thread = _Helper(recorder)
    thread.start()
    assert thread.inside.wait(30)
    yield thread
    thread.leave.set()
    thread.join()


@pytest.fixture
def no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process without handlers for signals: the one that limits the time of this test does not count."""
    monkeypatch.setattr("paceline.guard.rank.thread_slots.may_be_woken", lambda: False)


@pytest.mark.usefixtures("no_handlers")
def test_a_thread_that_joins_another_does_not_run(recorder: Recorder, inside_a_call: _Helper) -> None:
    reader = read(recorder)
    assert sorted(waiting is None for waiting in reader.threads()) == [False, True]
    with recorder.threads.joining(inside_a_call):
        (waiting,) = reader.threads()
        assert waiting is not None
        assert reader.joining_ids() == {threading.get_native_id()}
    assert sorted(waiting is None for waiting in reader.threads()) == [False, True]


@pytest.mark.usefixtures("no_handlers")
def test_a_thread_whose_joined_one_has_ended_runs(recorder: Recorder, inside_a_call: _Helper) -> None:
    reader = read(recorder)
    with recorder.threads.joining(inside_a_call):
        inside_a_call.leave.set()
        inside_a_call.join()
        assert reader.threads() == (None,)


def test_a_main_thread_that_a_handler_may_wake_runs(recorder: Recorder, inside_a_call: _Helper) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    try:
        with recorder.threads.joining(inside_a_call):
            assert None in read(recorder).threads()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("no_handlers")
def test_at_the_end_of_a_script_the_main_thread_joins_all_but_daemons(
    recorder: Recorder, inside_a_call: _Helper
) -> None:
    second = _Helper(recorder)
    second.start()
    assert second.inside.wait(30)
    recorder.threads.join_last()
    reader = read(recorder)
    assert [waiting is None for waiting in reader.threads()] == [False, False]
    second.leave.set()
    second.join()
    assert [waiting is None for waiting in reader.threads()] == [False]
    inside_a_call.leave.set()
    inside_a_call.join()
    assert reader.threads() == (None,)


def test_a_reserved_thread_counts_before_it_has_begun(recorder: Recorder) -> None:
    recorder.threads.reserve_slot(threading.Thread(target=print))
    assert read(recorder).threads() == (None,)
