"""Who is told that ranks are not watched, and when."""

from __future__ import annotations

import pytest

from paceline.guard.judge import sight_watch
from paceline.guard.judge.sight_watch import SightWatch
from paceline.guard.observe.worlds.job_worlds import OutOfSight
from paceline.launch.launcher_command.launcher_words import launcher_elsewhere

_UNSEEN = OutOfSight(ranks=(2, 3), world_size=4, num_local=2)


class _Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(sight_watch, "time", clock)
    return clock


def test_it_is_said_once_and_within_half_a_minute(clock: _Clock) -> None:
    watch, told = SightWatch(), []
    for _ in range(100):
        if watch.is_time():
            told += [(clock.now, text) for text in watch.look([_UNSEEN], num_seen=2)]
        clock.now += 0.5
    ((at, text),) = told
    assert at <= 130.0
    assert text.startswith("ranks 2-3 of 4 are not seen from here, so nobody notices if they fail or wait: ")


def test_ranks_that_come_a_little_later_are_not_told(clock: _Clock) -> None:
    watch = SightWatch()
    assert watch.look([_UNSEEN], num_seen=2) == []
    clock.now += 10
    assert watch.look([], num_seen=4) == []
    clock.now += 30
    assert watch.look([_UNSEEN], num_seen=2) == []  # as of another job, which has just begun


def test_what_has_not_been_said_is_said_at_the_end(clock: _Clock) -> None:
    watch = SightWatch()
    assert watch.look([_UNSEEN], num_seen=2, at_end=True) == [_UNSEEN.text]
    assert watch.look([_UNSEEN], num_seen=2, at_end=True) == []


@pytest.mark.parametrize(("launcher", "num_told"), [("srun", 1), (None, 0)])
def test_a_launcher_that_starts_all_ranks_elsewhere_is_named(
    clock: _Clock, launcher: str | None, num_told: int
) -> None:
    watch = SightWatch(launcher)
    assert watch.look([], num_seen=0) == []
    clock.now += 20
    told = watch.look([], num_seen=0)
    assert len(told) == num_told
    assert all(
        text.startswith("no rank is seen from here: srun may have started them on other machines") for text in told
    )


def test_a_head_that_sees_nobody_says_where_it_is_to_be_reached_and_nothing_at_the_end(clock: _Clock) -> None:
    watch = SightWatch("srun")
    assert watch.look([], num_seen=0, head="n1:24817") == []
    clock.now += 20
    assert watch.look([], num_seen=0, head="n1:24817") == []
    assert SightWatch("srun").look([], num_seen=0, head="n1:24817", at_end=True) == []
    clock.now += 20
    (told,) = watch.look([], num_seen=0, head="n1:24817")
    assert told.startswith("no rank is seen yet, here or elsewhere: srun may still wait for its hosts")
    assert told.endswith("can reach n1:24817")


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("srun -N 2 python train.py", "srun"),
        ("/usr/bin/mpirun --host n1,n2 python train.py", "mpirun"),
        ("mpiexec -f hosts.txt python train.py", "mpiexec"),
        ("mpirun --hostfile=hosts python train.py", "mpirun"),
        ("mpiexec -n 4 python train.py", None),
        ("python train.py --host n1", None),
        ("torchrun --nproc-per-node 2 train.py", None),
    ],
)
def test_which_commands_start_ranks_elsewhere(command: str, launcher: str | None) -> None:
    assert launcher_elsewhere(command.split()) == launcher


def test_what_is_not_known_of_the_launcher_is_not_claimed() -> None:
    unknown = OutOfSight(ranks=(1,), world_size=2)
    assert "it runs on another machine, or started without Paceline's hooks" in unknown.text


def test_a_cluster_has_two_minutes_to_start_workers(clock: _Clock) -> None:
    watch = SightWatch()
    watch.expect_workers("Ray")
    assert watch.look([], num_seen=0, head="n1:4000") == []
    clock.now += 100
    assert watch.look([], num_seen=0, head="n1:4000") == []
    clock.now += 30
    (told,) = watch.look([], num_seen=0, head="n1:4000")
    assert "Ray may still wait for its hosts" in told
    assert "has paceline[hosts] installed and the same key, and can reach n1:4000" in told
