"""`python -m paceline.cli.judge_process FOLDER PID`: the judge of a job that called `paceline.guard.enable()`.

It is started by the first rank and goes when the ranks have gone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.guard.observe.watched_job import WatchedJob
from paceline.guard.run.embedded_judge import watch_ranks
from paceline.guard.run.kept_records import keep_records
from paceline.guard.run.run_registry import describe_run, write_outcome
from paceline.guard.run.watched_run import Options
from paceline.guard.verdict.finding import Finding
from paceline.guard.verdict.finding_json import diagnosis_to_json
from paceline.process.exit_codes import FINDING_CODE
from paceline.report.text.finding_text import finding_as_text, notice_as_text


def main(arguments: Sequence[str]) -> int:
    """Judge until the ranks have gone; print what was found."""
    parser = argparse.ArgumentParser(prog="paceline.cli.judge_process")
    parser.add_argument("folder", type=Path)
    parser.add_argument("starter", type=int)
    parser.add_argument("--out")
    parser.add_argument("--notice", type=float)
    parser.add_argument("--timeout", type=float)
    options = parser.parse_args(arguments)
    out = Path(options.out) if options.out else None
    # Which code the job ends with is its launcher's affair, and not known here.
    describe_run(options.folder, ["a job that switched the guard on"], out)
    write_outcome(options.folder, {"exit_code": None, "text": None, "records": None})

    def keep(folder: Path, worlds: list[WatchedJob], finding: Finding | None) -> Path | None:
        records = keep_records(out, folder, worlds, finding, sys.argv)
        text = finding_as_text(finding) if finding is not None else None
        told = {"exit_code": None, "text": text, "records": str(records.absolute()) if records is not None else None}
        write_outcome(folder, told)
        return records

    found = watch_ranks(
        options.folder,
        options.starter,
        Options(
            notice_seconds=options.notice,
            timeout_seconds=options.timeout or None,
            keep=keep,
            on_notice=lambda notice: print(notice_as_text(notice), file=sys.stderr, flush=True),
        ),
    )
    if found is not None:
        finding, records = found
        if records is not None:  # for a report
            (records / "diagnosis.json").write_text(
                json.dumps(diagnosis_to_json(FINDING_CODE, finding), indent=2) + "\n"
            )
        print(finding_as_text(*found, colours=sys.stderr.isatty()), file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
