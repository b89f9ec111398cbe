"""The torch programs on a backend that only enqueues, as NCCL does: the guard finds and says what it does on gloo.

`ENQUEUING` runs a program on that backend. A rank whose program goes on, reads a value or exits may have a call under
way that never completes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.guard.broken_programs import Expectation, score
from tests.guard.program_files import ENQUEUING, NOT_ON_ENQUEUING
from tests.guard.test_torch_programs import (
    BROKEN_CASES,
    FINDING_CODE,
    check_is_not_noticed,
    correct,
    outcome_in,
    run,
    watched,
)

pytest.importorskip("torch")
pytestmark = pytest.mark.programs

# they end before they communicate, or need seconds to start, and show nothing that others do not
LEFT_OUT = {"disk_is_full", "memory_is_full", "exception_under_a_hook", "padded_twice", "short_last_batch"}
# ranks that go on to later calls show more than ranks that wait: that one rank has left a call out
OTHER_CAUSES = {"all_reduce_on_some_ranks": ("skipped-call",)}
CASES = [
    replace(case, causes=case.causes + OTHER_CAUSES.get(case.program.stem, ()), differs_at_marks=False)
    for case in BROKEN_CASES
    if case.program.stem not in NOT_ON_ENQUEUING | LEFT_OUT
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_broken_program_gets_the_diagnosis_that_it_gets_on_gloo(case: Expectation, tmp_path: Path) -> None:
    ended = run(watched("split", case.world_size, str(ENQUEUING), str(case.program)), tmp_path / "run")
    assert ended.returncode == FINDING_CODE, ended.stderr
    finding = outcome_in(tmp_path / "run")["finding"]
    assert score(case, finding).is_right, (score(case, finding), finding)


CORRECT_CASES = {
    "every_collective": 3,
    "empty_tensors": 3,
    "stragglers": 2,
}


@pytest.mark.parametrize("program", CORRECT_CASES)
def test_a_correct_program_ends_as_it_does_without_the_guard(program: str, tmp_path: Path) -> None:
    command = [str(ENQUEUING), str(correct(program))]
    check_is_not_noticed("split", CORRECT_CASES[program], *command, folder=tmp_path)
