"""Ranks that came at the very same moment and missed each other: the judge sees it, even if nothing changes again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.guard.judge.judge import Judge
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.ring_reader import RingReader
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.count_tables import meet_pairs
from paceline.guard.shared_memory import layout
from paceline.guard.shared_memory.operations import BY_NAME
from paceline.guard.shared_memory.pair_board import Table


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Recorder]]:
    # both are in this process, and there is no judge to wait for: a rank that should stop goes on
    ranks = [Recorder(tmp_path, f"job.0.{rank}", rank=rank, world_size=2) for rank in range(2)]
    yield ranks
    for rank in ranks:
        rank.ring.words.release()
        rank.ring.bytes.close()


def exchange(rank: Recorder, member: int, table: Table) -> None:
    communicator = rank.communicator("mpi-world", "WORLD", range(2), member)
    assert communicator is not None
    number = rank.begin_collective(communicator, BY_NAME["Alltoallv"].code, depth=1)
    meet_pairs(rank, number, communicator, table, waits=True)


def test_a_difference_that_came_just_after_the_last_sweep_is_seen_by_the_next(
    pair: list[Recorder], tmp_path: Path
) -> None:
    rings = LocalRings(tmp_path)
    judge = Judge(rings, tmp_path)
    tables: list[Table] = [([8, 8], [8, 8]), ([16, 8], [8, 8])]
    for rank, recorder in enumerate(pair):
        exchange(recorder, rank, tables[rank])
        assert judge.look() is None  # the first time this sweeps the boards
    time.sleep(0.15)
    finding = judge.look()
    assert finding is not None
    assert finding.summary.startswith("rank 1 sends 16 bytes to rank 0 at ")
    assert finding.ranks == (0, 1)
    rings.close()


def test_a_rank_that_stopped_and_was_let_go_on_is_in_its_call_again(pair: list[Recorder], tmp_path: Path) -> None:
    exchange(pair[0], 0, ([8, 8], [8, 8]))
    exchange(pair[1], 1, ([16, 8], [8, 8]))
    reader = RingReader(tmp_path / "ring.job.0.1")
    assert reader.word(layout.STOP_REASON) == layout.STOP_COLLECTIVE
    assert reader.is_inside()
    reader.close()


def test_tables_that_fit_are_left_alone(pair: list[Recorder], tmp_path: Path) -> None:
    rings = LocalRings(tmp_path)
    judge = Judge(rings, tmp_path)
    for rank, recorder in enumerate(pair):
        exchange(recorder, rank, ([8, 24], [8, 24]) if rank == 0 else ([24, 0], [24, 0]))
    for _ in range(3):
        assert judge.look() is None
        time.sleep(0.06)
    rings.close()
