"""The file beside the records that holds the diagnosis of a run. Its form is that of guard/verdict/finding_json.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.finding_json import diagnosis_to_json
from paceline.guard.verdict.job_warning import JobWarning

DIAGNOSIS = "diagnosis.json"


def write_diagnosis(
    path: Path, exit_code: int | None, finding: Finding | None, warnings: Sequence[JobWarning] = ()
) -> None:
    """Write the diagnosis of a run."""
    path.write_text(json.dumps(diagnosis_to_json(exit_code, finding, warnings), indent=2) + "\n")
