"""A rank that never joined has ended once its Python has, though its process lives on; nothing else counts as that."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest
from tests.guard.test_rank_starts import INSIDE_INIT, mpi_rank, started

from paceline.guard.observe import rank_starts
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.observe.rank_starts import RankStarts, StartNote
from paceline.guard.shared_memory import layout
from paceline.guard.verdict.diagnose import find_certain
from paceline.guard.verdict.inspection import Inspection

# as the hooks say it once all functions at exit have run
_PYTHON_ENDS = """
    from paceline.guard.rank.watched_process import SESSION
    SESSION.end(1)
    """


@pytest.fixture(autouse=True)
def without_patience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    for name in ("_LINGER_SECONDS", "_LOOK_SECONDS", "_SOON_SECONDS"):
        monkeypatch.setattr(rank_starts, name, 0.0)


def _ended(starts: RankStarts) -> list[int]:
    for _ in range(2):  # it lingers only at the second look
        time.sleep(0.01)
        found = [rank for ranks in starts.ended_early(set()).values() for rank in ranks]
    return found


def _starts(folder: Path) -> RankStarts:
    starts = RankStarts(folder, 0, lambda process: None)
    starts.read(os.listdir(folder))
    return starts


def test_a_rank_whose_python_has_ended_has_ended(tmp_path: Path) -> None:
    with started(tmp_path, mpi_rank(1), _PYTHON_ENDS):
        starts = _starts(tmp_path)
        assert _ended(starts) == [1]
        (process,) = starts.all()
        assert not process.process.has_ended()
        assert 0 < process.reader.word(layout.ENDED_AT) <= time.monotonic_ns()


def test_others_in_mpi_init_wait_for_it(tmp_path: Path) -> None:
    rings = LocalRings(tmp_path)
    try:
        with started(tmp_path, mpi_rank(0), INSIDE_INIT), started(tmp_path, mpi_rank(1), _PYTHON_ENDS):
            for _ in range(2):
                time.sleep(0.01)
                rings.jobs()
            (snapshot,) = rings.starting()
            finding = find_certain(Inspection(snapshot))
            assert finding is not None
            assert finding.ranks == (1,)
            assert not any(has_gone for _, has_gone in rings.started())  # no time of its end can be told elsewhere
    finally:
        rings.close()


def test_a_rank_that_lives_has_not_ended(tmp_path: Path) -> None:
    with started(tmp_path, mpi_rank(1)):
        assert _ended(_starts(tmp_path)) == []


def test_a_program_that_has_used_python_for_a_while_goes_on(tmp_path: Path) -> None:
    with started(tmp_path, mpi_rank(1), _PYTHON_ENDS) as process:
        note = tmp_path / f"start.{process.pid}"
        assert '"is_python": true' in note.read_text()
        note.write_text(note.read_text().replace('"is_python": true', '"is_python": false'))
        assert _ended(_starts(tmp_path)) == []


def test_a_program_that_took_the_place_of_another_begins_anew(tmp_path: Path) -> None:
    again = f"import os; os.execv({sys.executable!r}, [{sys.executable!r}, '-c', 'print(flush=True); input()'])"
    with started(tmp_path, mpi_rank(1), f"{_PYTHON_ENDS}\n    {again}"):
        assert _ended(_starts(tmp_path)) == []


def test_of_several_processes_the_one_that_lingers_is_the_last(tmp_path: Path) -> None:
    with started(tmp_path, mpi_rank(1)) as before:
        before.communicate("\n")
    with started(tmp_path, mpi_rank(1), _PYTHON_ENDS) as lingers:
        starts = _starts(tmp_path)
        assert _ended(starts) == [1]
        (ranks,) = starts.ended_early(set()).values()
        assert ranks[1].process.pid == lingers.pid


def test_times_of_another_host_and_what_is_not_a_number_are_not_used(tmp_path: Path) -> None:
    path = tmp_path / "start.7"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in ({"pid": 7}, {"ending": 1, "at": 5_000})))
    path.chmod(0o600)
    note = StartNote(path)
    note.read_texts()
    assert (note.word(layout.ENDING), note.word(layout.ENDED_AT)) == (1, 5_000)
    note.is_of_this_clock = False
    assert (note.word(layout.ENDING), note.word(layout.ENDED_AT)) == (1, 0)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in ({"pid": 7}, {"ending": "x", "at": [1]})))
    note.is_of_this_clock = True
    note.read_texts()
    assert (note.word(layout.ENDING), note.word(layout.ENDED_AT)) == (0, 0)
