"""The end of a training function is the end of the rank, although Ray keeps the process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from paceline.guard.observe.kernel_view import ProcessHandle
from paceline.guard.observe.rank_ends import rank_end
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.observe.watched_rank import WatchedRank
from paceline.guard.rank.ray.training_function import noting_its_end, watch_training_function
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.snapshot import End, EndKind

_WORKER = """
    import sys
    from pathlib import Path
    from paceline.guard.rank.ray.training_function import noting_its_end
    from paceline.guard.rank.watched_process import SESSION
    SESSION.open(Path(sys.argv[1]))
    assert SESSION.join("torch", rank=0, world_size=2, job="one") is not None

    def train():
        {body}

    try:
        noting_its_end(train)()
    except ValueError:
        pass
    print("ended", flush=True)
    sys.stdin.read()
    """


def _end_of(body: str, folder: Path) -> End | None:
    """Run a training function in a worker; return the end of the rank as the judge sees it while the worker lives."""
    command = [sys.executable, "-c", textwrap.dedent(_WORKER).format(body=body), str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ended\n"
        (path,) = folder.glob("ring.*")
        reader = RingReader(path)
        reader.read_texts()
        held = ProcessHandle(reader.word(layout.PID), reader.word(layout.START_TIME))
        assert not held.has_ended()
        end = rank_end(WatchedRank(reader, held, kills_before=0))
        held.close()
        reader.close()
        return end


def test_a_function_that_raises_ends_the_rank_with_its_exception(tmp_path: Path) -> None:
    end = _end_of("raise ValueError('bad sample')", tmp_path)
    assert end is not None
    assert (end.kind, end.detail) == (EndKind.RAISED, "ValueError: bad sample")
    assert end.at_ns > 0


def test_a_function_that_returns_ends_the_rank_well(tmp_path: Path) -> None:
    end = _end_of("return 7", tmp_path)
    assert end is not None
    assert (end.kind, end.is_failure, end.detail) == (EndKind.EXITED, False, "came to the end of the script")


def _fail() -> object:
    raise ValueError("bad sample")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 keeps the frame of whoever raises again")
def test_the_traceback_that_ray_shows_is_that_of_the_function_alone() -> None:
    with pytest.raises(ValueError, match="bad sample") as caught:
        noting_its_end(_fail)()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["_fail"]  # the first one is this test


class _ThreadRunner:
    """As Ray has it: keeps what the function returned, or raised."""

    def __init__(self) -> None:
        self.kept: object = None

    def run(self, target: Callable[[], object]) -> None:
        def run_target() -> None:
            try:
                self.kept = target()
            except BaseException as error:
                self.kept = error

        thread = threading.Thread(target=run_target, name=f"TrainingThread({target.__name__})")
        thread.start()
        thread.join()


def test_ray_gets_what_the_function_returns_and_raises() -> None:
    module = ModuleType("thread_runner")
    module.ThreadRunner = _ThreadRunner  # type: ignore[attr-defined]
    plain = _ThreadRunner.run
    watch_training_function(module)
    try:
        assert _ThreadRunner.run is not plain
        returned, raised = _ThreadRunner(), _ThreadRunner()
        returned.run(lambda: 7)
        raised.run(_fail)
    finally:
        _ThreadRunner.run = plain  # type: ignore[method-assign]
    assert returned.kept == 7
    assert isinstance(raised.kept, ValueError)
