"""A recorder of each kind and its world, for the tests of records."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.communicator import Communicator
from paceline.guard.rank.compiled_recorder import RecorderInUse


@pytest.fixture(params=[Recorder, RecorderInUse], ids=["python", "compiled"])
def recorder(request: pytest.FixtureRequest, tmp_path: Path) -> Recorder:
    made = request.param(tmp_path, "world.0.0", rank=0, world_size=3)
    assert isinstance(made, Recorder)
    return made


@pytest.fixture
def world(recorder: Recorder) -> Communicator:
    made = recorder.communicator("mpi-world", "WORLD", range(3), 0)
    assert made is not None
    return made
