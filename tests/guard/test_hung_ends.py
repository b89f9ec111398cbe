"""A job whose scripts have ended, and whose processes have not: it would hang without a word, so it is said."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.guard.small_runs import run, write

from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.shared_memory import layout

# what a library does that waits for something when the process ends
_ONE_STAYS = """
    import ctypes
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.rank == 1:
        ctypes.pythonapi.Py_AtExit(ctypes.cast(ctypes.CDLL(None).pause, ctypes.c_void_p))
    """


def test_ranks_that_hang_at_their_end_are_told_and_ended_by_a_limit(tmp_path: Path) -> None:
    write(tmp_path, "stays.py", _ONE_STAYS)
    options = ["--notice", "0.5", "--timeout", "4", "--json", "told.json"]
    done = run(tmp_path, *options, "-n", "2", "--carrier", "mpi", "stays.py")
    assert done.returncode == 90, done.stderr
    assert re.search(r"all scripts have ended, but \d s later ranks? [01]", done.stderr), done.stderr
    finding = json.loads((tmp_path / "told.json").read_text())["finding"]
    assert (finding["cause"], 1 in finding["ranks"]) == ("timeout", True)
    assert "longer than the limit of 4 s" in finding["summary"]


def _ranks(folder: Path, num_ranks: int = 2) -> list[Recorder]:
    return [Recorder(folder, f"world.0.{rank}", rank=rank, world_size=2) for rank in range(num_ranks)]


def _end(recorder: Recorder, *, leaves: bool) -> None:
    recorder.ring.write_text({"leaves": leaves})
    recorder.end(layout.EXITS)


def _lingering(folder: Path) -> list[int]:
    rings = LocalRings(folder)
    try:
        (job,) = rings.jobs()
        job.snapshot(history=0)
        return sorted(job.lingering())
    finally:
        rings.close()


def test_nobody_lingers_before_all_scripts_have_ended(tmp_path: Path) -> None:
    """Ranks that are done early wait in MPI_Finalize for the others, for hours if need be."""
    recorders = _ranks(tmp_path)
    assert _lingering(tmp_path) == []
    _end(recorders[0], leaves=True)
    assert _lingering(tmp_path) == []
    _end(recorders[1], leaves=True)
    assert _lingering(tmp_path) == [0, 1]


def test_a_process_that_goes_on_without_python_does_not_linger(tmp_path: Path) -> None:
    """A program that embeds Python may compute for hours after it; Ray keeps the processes of its workers."""
    first, second = _ranks(tmp_path)
    _end(first, leaves=True)
    _end(second, leaves=False)
    assert _lingering(tmp_path) == []


def test_nobody_lingers_while_a_rank_has_not_been_seen(tmp_path: Path) -> None:
    (recorder,) = _ranks(tmp_path, 1)
    _end(recorder, leaves=True)
    assert _lingering(tmp_path) == []
