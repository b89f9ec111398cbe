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
from paceline.guard.run.watch_options import WatchOptions
from paceline.report.text.finding_text import finding_as_text, notice_as_text


def main(arguments: Sequence[str]) -> int:
    """Judge until the ranks have exited; print what was found."""
    parser = argparse.ArgumentParser(prog="paceline.cli.judge_process")
    parser.add_argument("folder", type=Path)
    parser.add_argument("starter", type=int)
    parser.add_argument("--out")
    parser.add_argument("--notice", type=float)
    parser.add_argument("--timeout", type=float)
    options = parser.parse_args(arguments)
    watching = WatchOptions(
        out=Path(options.out) if options.out else None,
        notice_seconds=options.notice,
        timeout_seconds=options.timeout or None,
        on_notice=lambda notice: say(notice_as_text(notice)),
        on_fault=lambda fault: say(f"paceline: {fault}"),
    )
    outcome = judge_ranks(options.folder, options.starter, watching)
    if outcome.finding is not None:
        say(finding_as_text(outcome.finding, outcome.records, colours=sys.stderr.isatty()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
