"""`python -m paceline.cli.judge_process FOLDER PID`: judges a job that called `paceline.guard.enable()`.

The first rank starts it, and it exits after the ranks. It reads options and prints; judging and keeping records is
`paceline.guard.run.embedded_judge`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.cli.verb_io import say
from paceline.guard.run.embedded_judge import judge_ranks
from paceline.guard.run.meeting_place import leave_meeting_place
from paceline.guard.run.watch_options import WatchOptions
from paceline.guard.verdict.job_warning import read_causes
from paceline.report.safe_text import terminal_safe
from paceline.report.text.finding_text import (
    finding_as_text,
    notice_as_text,
    problem_as_text,
    records_as_text,
    warning_as_text,
)
from paceline.report.text.text_layout import layout_for


def main(arguments: Sequence[str]) -> int:
    """Judge until the ranks have exited; print what was found."""
    parser = argparse.ArgumentParser(prog="paceline.cli.judge_process")
    parser.add_argument("folder", type=Path)
    parser.add_argument("starter", type=int)
    parser.add_argument("--note", type=Path)
    parser.add_argument("--out")
    parser.add_argument("--notice", type=float)
    parser.add_argument("--timeout", type=float)
    parser.add_argument("--ignore", default="")
    options = parser.parse_args(arguments)
    watching = WatchOptions(
        out=Path(options.out) if options.out else None,
        notice_seconds=options.notice,
        timeout_seconds=options.timeout or None,
        on_notice=lambda notice: say(notice_as_text(notice, layout_for(sys.stderr))),
        ignored=read_causes("ignore", [options.ignore]),
        on_warning=lambda warning: None if warning.cause.is_note else say(warning_as_text(warning)),
        on_unseen=lambda text: say(f"paceline: {terminal_safe(text)}"),
        on_problem=lambda problem: say(problem_as_text(problem)),
        on_fault=lambda fault: say(f"paceline: {terminal_safe(fault)}"),
        on_finding=lambda finding: say(finding_as_text(finding, layout_for(sys.stderr))),
    )
    outcome = judge_ranks(options.folder, options.starter, watching)
    leave_meeting_place(options.note, options.folder)
    if outcome.records is not None and outcome.finding is not None:
        say(records_as_text(outcome.records, layout_for(sys.stderr)))
    if outcome.unwritten is not None:
        say(f"paceline: {terminal_safe(outcome.unwritten)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
