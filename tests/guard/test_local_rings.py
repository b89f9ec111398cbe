"""Rings whose processes are in several worlds, as the judge reads them; both ranks are recorders of this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.guard.judge.judge import Judge
from paceline.guard.judge.time_limit import TimeLimit
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.run.judged_run import JudgedRun
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME

_ALL_REDUCE, _BARRIER = BY_NAME["torch.all_reduce"].code, BY_NAME["torch.barrier"].code


@pytest.fixture
def rings(tmp_path: Path) -> Iterator[LocalRings]:
    found = LocalRings(tmp_path)
    yield found
    found.close()


def join_torch(recorder: Recorder, rank: int) -> Communicator:
    recorder.join_world(f"torch.0.{rank}", rank=rank, world_size=2, carrier="torch")
    world = recorder.communicator("torch-world-1", "WORLD", range(2), rank)
    assert world is not None
    return world


def alone_in_mpi(folder: Path) -> list[Recorder]:
    return [Recorder(folder, f"alone{number}.0.0", rank=0, world_size=1) for number in range(2)]


def test_a_world_of_one_gives_way_to_a_larger_one(tmp_path: Path, rings: LocalRings) -> None:
    recorders = alone_in_mpi(tmp_path)
    assert [(job.name, job.world_size, list(job.ranks)) for job in rings.jobs()] == [
        ("alone0.0", 1, [0]), ("alone1.0", 1, [0])
    ]  # fmt: skip
    worlds = [join_torch(recorder, 1 - number) for number, recorder in enumerate(recorders)]
    (job,) = rings.jobs()
    assert (job.name, job.world_size, sorted(job.ranks)) == ("torch.0", 2, [0, 1])
    recorders[0].begin_collective(worlds[0], _ALL_REDUCE, depth=1)
    snapshot = job.snapshot(history=10)
    (identity,) = snapshot.communicators
    assert snapshot.communicators[identity].ranks == (0, 1)
    positions = [state.positions.get(identity) for state in snapshot.ranks if state is not None]
    assert positions == [0, 1]  # the first recorder is rank 1


def test_calls_on_a_communicator_of_another_world_are_left_out(tmp_path: Path, rings: LocalRings) -> None:
    """A rank may join a world and call there after the judge has listed the rings: it is judged at the next look."""
    recorders = alone_in_mpi(tmp_path)
    jobs = rings.jobs()
    for number, recorder in enumerate(recorders):
        recorder.begin_collective(join_torch(recorder, number), (_ALL_REDUCE, _BARRIER)[number], depth=1)
    assert [job.snapshot(history=10).communicators for job in jobs] == [{}, {}]
    (job,) = rings.jobs()
    assert [known.ranks for known in job.snapshot(history=10).communicators.values()] == [(0, 1)]


def test_boards_of_worlds_with_equal_names_are_kept_apart(tmp_path: Path) -> None:
    """Two MPI jobs of two ranks inside a torch job each have a communicator that is called WORLD."""
    for job in ("low", "high"):
        for rank in range(2):
            recorder = Recorder(tmp_path, f"{job}.0.{rank}", rank=rank, world_size=2)
            assert recorder.communicator("mpi-world", "WORLD", range(2), rank) is not None
    assert sorted(path.name for path in tmp_path.glob("board.*")) == ["board.high.0.mpi-world", "board.low.0.mpi-world"]


def test_finalizing_mpi_leaves_the_communicators_of_torch_in_use(tmp_path: Path) -> None:
    recorder = alone_in_mpi(tmp_path)[0]
    mpi = recorder.communicator("mpi-world", "WORLD", range(1), 0)
    torch = join_torch(recorder, 0)
    assert (recorder.communicators_of("mpi"), recorder.communicators_of("torch")) == ([mpi], [torch])


def test_members_in_another_order_are_told_in_that_order(tmp_path: Path, rings: LocalRings) -> None:
    recorder = Recorder(tmp_path, "world.0.0", rank=0, world_size=3)
    assert recorder.communicator("reversed", "Split", (2, 1, 0), 2) is not None
    (job,) = rings.jobs()
    assert [known.ranks for known in job.snapshot(history=0).communicators.values()] == [(2, 1, 0)]


def test_after_a_fault_nothing_is_concluded_but_the_limit_holds(
    tmp_path: Path, rings: LocalRings, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[str] = []

    def fail(judge: Judge, **named: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(Judge, "look", fail)
    (tmp_path / "judge").touch()
    recorder = Recorder(tmp_path, "world.0.0", rank=0, world_size=2)
    world = recorder.communicator("mpi-world", "WORLD", range(2), 0)
    assert world is not None
    recorder.begin_collective(world, BY_NAME["Barrier"].code, depth=1)
    judged = JudgedRun(rings, tmp_path, WatchOptions(timeout_seconds=0.2, on_fault=faults.append))
    finding = None
    for _ in range(200):
        finding = judged.look()
        if finding is not None:
            break
        rings.wait(0.01)
    assert finding is not None
    assert finding.cause.value == "timeout"
    assert [(group.ranks, group.call) for group in finding.groups] == [((0,), "Barrier")]
    assert len(faults) == 1
    assert faults[0].startswith("the guard itself failed (IndexError: list index out of range, at test_local_rings.py:")
    assert not (tmp_path / "judge").exists()  # no rank waits for a word
    assert judged.look_back(failed=True) is None


def test_the_limit_begins_again_with_every_call(tmp_path: Path, rings: LocalRings) -> None:
    recorder = Recorder(tmp_path, "world.0.0", rank=0, world_size=2)
    world = recorder.communicator("mpi-world", "WORLD", range(2), 0)
    assert world is not None
    limit = TimeLimit(0.3)
    for _ in range(30):
        number = recorder.begin_collective(world, BY_NAME["Barrier"].code, depth=1)
        limit.note(rings.jobs())
        assert limit.passed(rings.jobs()) is None
        rings.wait(0.02)
        recorder.unblock(number)
        recorder.ring.words[layout.THREADS_AT] = 0


def test_what_is_removed_before_a_job_is_over_stays_readable(tmp_path: Path, rings: LocalRings) -> None:
    """A batch system may end a watcher together with its ranks: then nobody is left to remove anything."""
    recorders = alone_in_mpi(tmp_path)
    for number, recorder in enumerate(recorders):
        world = join_torch(recorder, number)
        recorder.leave(recorder.begin_collective(world, _BARRIER, depth=1))
    rings.jobs()
    later = tmp_path / "ring.of-a-later-command.0"
    later.touch()
    rings.remove_files_of_ended()
    left = [path for path in tmp_path.iterdir() if path.name.startswith(("ring.", "board.", "empty."))]
    assert all(path.stat().st_size == 0 for path in left)
    with pytest.raises(FileExistsError):  # a later script is of the next generation
        Recorder(tmp_path, "torch.0.0", rank=0, world_size=2)
    assert len(rings.jobs()) == 1
    rings.remove_folder()
    assert not tmp_path.exists()
    (job,) = rings.jobs()
    states = [state for state in job.snapshot(history=10).ranks if state is not None]
    assert [list(state.positions.values()) for state in states] == [[1], [1]]
    assert rings.problems() == []
