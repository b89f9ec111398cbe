"""The file beside the records that holds the diagnosis of a run. Its form is that of guard/verdict/finding_json.py."""

from __future__ import annotations

import json
from pathlib import Path

from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.finding_json import diagnosis_to_json

DIAGNOSIS = "diagnosis.json"


def write_diagnosis(path: Path, exit_code: int | None, finding: Finding | None) -> None:
    """Write the diagnosis of a run."""
    path.write_text(json.dumps(diagnosis_to_json(exit_code, finding), indent=2) + "\n")
