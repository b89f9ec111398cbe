"""A job whose scripts have ended, and whose processes have not: it would hang without a word, so it is said."""

from __future__ import annotations

import json
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
    assert "all scripts have ended, but 1 s later rank" in done.stderr
    finding = json.loads((tmp_path / "told.json").read_text())["finding"]
    assert (finding["cause"], 1 in finding["ranks"]) == ("timeout", True)
    assert "longer than the limit of 4 s" in finding["summary"]


def test_nobody_lingers_before_all_scripts_have_ended(tmp_path: Path) -> None:
    """Ranks that are done early wait in MPI_Finalize for the others, for hours if need be."""
    recorders = [Recorder(tmp_path, f"world.0.{rank}", rank=rank, world_size=2) for rank in range(2)]
    rings = LocalRings(tmp_path)
    try:
        (job,) = rings.jobs()
        assert job.lingering() == {}
        recorders[0].end(layout.EXITS)
        assert job.lingering() == {}
        recorders[1].end(layout.EXITS)
        assert sorted(job.lingering()) == [0, 1]
    finally:
        rings.close()


def test_nobody_lingers_while_a_rank_has_not_been_seen(tmp_path: Path) -> None:
    Recorder(tmp_path, "world.0.0", rank=0, world_size=2).end(layout.EXITS)
    rings = LocalRings(tmp_path)
    try:
        (job,) = rings.jobs()
        assert job.lingering() == {}
    finally:
        rings.close()
