"""Whatever is in a file that we read: the answer or an error of ours, in little time and memory, and never a traceback.

The inputs come from a seed, so that a failure can be repeated. `make fuzz` runs more of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz.fuzzing import fuzz
from tests.fuzz.kinds import all_kinds

from paceline.guard.run import run_registry

_NUM_INPUTS = 40


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", list(all_kinds()))
def test_spoiled_inputs_are_read_or_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_registry, "MEMORY", tmp_path)  # one kind puts its own there
    outcome = fuzz(name, all_kinds()[name], tmp_path, num_inputs=_NUM_INPUTS, seed=0)
    assert outcome.problems() == []
